#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "backends/reference/judge.h"
#include "verify/mutants.h"
#include "verify/plans.h"
#include "verify/random_plan.h"
#include "verify/real_plans.h"

namespace stretto {
namespace {

using Kind = Fault::Kind;

/// Kinds that the judge does not look for, or for which verify demands more than safety.
bool beyond_the_judge(const Fault& fault) {
    return fault.kind == Kind::Stream || fault.kind == Kind::Capacity || fault.kind == Kind::Malformed;
}

struct Score {
    int tried = 0;
    int harmful = 0;
};

/// Verify must report a fault that the judge can see exactly where the judge reports one.
void judge_mutant(const Mutation& mutation, const Plan& mutant, Score& score) {
    const std::vector<std::string> expected = exhaustive_check(mutant);
    const std::vector<Fault> found = verify(mutant);
    ++score.tried;
    if (mutation.only_stream) {
        ++score.harmful;
        EXPECT_TRUE(std::any_of(found.begin(), found.end(), [](const Fault& fault) {
            return fault.kind == Kind::Stream;
        })) << mutation.name;
        return;
    }
    score.harmful += expected.empty() ? 0 : 1;
    if (expected.empty()) {
        EXPECT_TRUE(std::all_of(found.begin(), found.end(), beyond_the_judge))
            << mutation.name << ": a false alarm\n"
            << faults_of(mutant);
    } else {
        EXPECT_TRUE(std::any_of(found.begin(), found.end(),
                                [](const Fault& fault) { return fault.kind != Kind::Stream; }))
            << mutation.name << ": an escape\n"
            << expected.front();
    }
}

std::map<std::string, Score> attack(const std::vector<Plan>& plans, int rounds, Random& random) {
    std::map<std::string, Score> scores;
    for (const Plan& plan : plans) {
        EXPECT_EQ(faults_of(plan), "");
        EXPECT_EQ(exhaustive_check(plan), std::vector<std::string>{});
        for (const Mutation& mutation : mutations()) {
            for (int round = 0; round < rounds; ++round) {
                if (const auto mutant = mutation.apply(plan, random)) {
                    judge_mutant(mutation, *mutant, scores[mutation.name]);
                }
            }
        }
    }
    return scores;
}

void expect_every_mutation_to_bite(const std::map<std::string, Score>& scores) {
    for (const Mutation& mutation : mutations()) {
        const auto found = scores.find(mutation.name);
        ASSERT_NE(found, scores.end()) << mutation.name << " found no place in any plan";
        EXPECT_GT(found->second.harmful, 0) << mutation.name << " broke nothing in " << found->second.tried;
    }
}

TEST(Mutants, OfRandomPlansAreFoundExactlyWhereTheJudgeFindsThem) {
    Random random(20261129);
    std::vector<Plan> plans;
    for (int i = 0; i < 40; ++i) plans.push_back(random_correct_plan(random));
    expect_every_mutation_to_bite(attack(plans, 6, random));
}

TEST(Mutants, OfRealPlansAreFoundExactlyWhereTheJudgeFindsThem) {
    Random random(7);
    expect_every_mutation_to_bite(attack(real_plans(), 8, random));
}

}  // namespace
}  // namespace stretto
