#include <gtest/gtest.h>

#include "base/error.h"
#include "base/plan_options.h"

namespace stretto {
namespace {

std::string message_of(std::string_view text) {
    try {
        static_cast<void>(parse_plan_options(text));
    } catch (const UserError& error) {
        return error.what();
    }
    return "no error";
}

TEST(PlanOptions, AreNothingToSayWhereNothingWasTuned) {
    EXPECT_EQ(to_text(PlanOptions{}), "");
    EXPECT_EQ(parse_plan_options(""), PlanOptions{});
}

TEST(PlanOptions, ReadBackFromTheirText) {
    PlanOptions options;
    options.stream = false;
    options.words_up_to = 0.3;
    options.recompute_up_to = 1e-3;
    options.workers = 99;
    options.attention_splits = 4;
    options.product_parts = 1;
    options.task_panels = 2;
    options.product_strips = 0;
    EXPECT_EQ(to_text(options),
              "stream=off,words_up_to=0.3,recompute_up_to=0.001,workers=99,attention_splits=4,"
              "product_parts=1,task_panels=2,product_strips=0");
    EXPECT_EQ(parse_plan_options(to_text(options)), options);
}

TEST(PlanOptions, NameWhatIsWrongWithAText) {
    EXPECT_EQ(message_of("workers=7,luck=3"),
              "plan option 'luck=3': write NAME=VALUE, where NAME is one of stream, words, words_up_to, "
              "recompute_up_to, workers, attention_splits, product_parts, task_panels, product_strips");
    EXPECT_EQ(message_of("words").substr(0, 39), "plan option 'words': write NAME=VALUE, ");
    EXPECT_EQ(message_of("words=maybe"), "plan option words=maybe: the value must be on or off");
    EXPECT_EQ(message_of("workers=1.5"),
              "plan option workers=1.5: the value must be a whole number of at least 0");
    EXPECT_EQ(message_of("task_panels=0"),
              "plan option task_panels=0: the value must be a whole number of at least 1");
    EXPECT_EQ(message_of("words_up_to=-1"),
              "plan option words_up_to=-1: the value must be a number of at least 0");
}

TEST(PlanOptions, LeavePartsOfTheCompilerOut) {
    PlanOptions options;
    options.workers = 5;
    EXPECT_EQ(to_text(without({"words", "stream"}, options)), "stream=off,words=off,workers=5");
}

}  // namespace
}  // namespace stretto
