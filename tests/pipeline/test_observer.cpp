#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "pipeline/observer.h"

namespace stretto {
namespace {

constexpr std::string_view kGraph = "%0 = input user \"x\" : f32[4]\noutput %0 \"y\"\n";

std::string log_of(ObserverSettings settings) {
    std::ostringstream log;
    Observer observer(std::move(settings), log);
    (void)observer.stage("simplify", [] { return parse_graph(kGraph); });
    (void)observer.stage("fuse", [] { return RegionGraph{}; });
    return log.str();
}

std::string content_of(const std::filesystem::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Observer, IsSilentUnlessAsked) {
    EXPECT_EQ(log_of(observer_settings(nullptr, nullptr, nullptr)), "");
    EXPECT_EQ(log_of(observer_settings("", "", "0")), "");
}

TEST(Observer, ReturnsWhatTheStageReturns) {
    std::ostringstream log;
    Observer observer({}, log);
    EXPECT_EQ(observer.stage("simplify", [] { return parse_graph(kGraph); }), parse_graph(kGraph));
}

TEST(Observer, DumpsTheTextFormOfTheStagesThatAreNamed) {
    EXPECT_EQ(log_of(observer_settings("verify,simplify", nullptr, nullptr)),
              "# simplify\n" + std::string(kGraph));
}

TEST(Observer, DumpsToAFolderThatItMakes) {
    const auto folder = std::filesystem::path(testing::TempDir()) / "stretto_observer" / "dump";
    std::filesystem::remove_all(folder);
    EXPECT_EQ(log_of(observer_settings("simplify", folder.c_str(), nullptr)), "");
    EXPECT_EQ(content_of(folder / "simplify.txt"), kGraph);
    EXPECT_FALSE(std::filesystem::exists(folder / "fuse.txt"));
}

TEST(Observer, WritesTheTimeOfEachStage) {
    const std::string log = log_of(observer_settings(nullptr, nullptr, "1"));
    EXPECT_EQ(log.find("stretto: simplify"), 0U);
    EXPECT_NE(log.find("stretto: fuse"), std::string::npos);
}

TEST(Observer, TimesAreKeptInOrder) {
    std::ostringstream log;
    Observer observer({}, log);
    (void)observer.stage("simplify", [] { return Graph{}; });
    (void)observer.stage("fuse", [] { return RegionGraph{}; });
    ASSERT_EQ(observer.times().size(), 2U);
    EXPECT_EQ(observer.times()[0].stage, "simplify");
    EXPECT_EQ(observer.times()[1].stage, "fuse");
}

TEST(Observer, AnUnknownStageIsNamedWithThoseThatExist) {
    try {
        (void)observer_settings("fuse,link", nullptr, nullptr);
        FAIL() << "no error";
    } catch (const UserError& error) {
        EXPECT_STREQ(
            error.what(),
            "STRETTO_DUMP names 'link', which is no stage. The stages are simplify, fuse, tile, schedule, "
            "memory, verify, emit");
    }
}

TEST(Observer, AFileThatCannotBeWrittenIsNamed) {
    try {
        (void)log_of(observer_settings("simplify", "/proc/nowhere", nullptr));
        FAIL() << "no error";
    } catch (const UserError& error) {
        EXPECT_STREQ(
            error.what(),
            "cannot write '/proc/nowhere/simplify.txt'. Let STRETTO_DUMP_DIR name a folder that can be "
            "written, or unset it to dump to standard error");
    }
}

}  // namespace
}  // namespace stretto
