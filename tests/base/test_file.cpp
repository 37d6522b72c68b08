#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
protected:
    Files() { fs::create_directories(folder); }
    ~Files() override { fs::remove_all(folder); }

    [[nodiscard]] std::string path(const std::string& name) const { return (folder / name).string(); }
    [[nodiscard]] std::size_t count() const {
        return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {}));
    }

    fs::path folder =
        fs::temp_directory_path() /
        (std::string("stretto_") + testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(Files, ReadBackWhatWasWrittenAndReplaceWhatWasThere) {
    const std::string bytes("a\0\n\xff", 4);
    write_file(path("a"), "something longer");
    write_file(path("a"), bytes);
    EXPECT_EQ(read_file(path("a")), bytes);
    EXPECT_EQ(count(), 1U);
}

TEST_F(Files, LeaveNothingWhereTheyCannotBeWritten) {
    fs::create_directories(folder / "full" / "folder");
    EXPECT_THROW(write_file(path("full"), "x"), UserError);
    EXPECT_THROW(write_file(path("no/folder"), "x"), UserError);
    EXPECT_EQ(count(), 1U);
}

TEST_F(Files, ThatAreMissingAreNamed) {
    try {
        static_cast<void>(read_file(path("none")));
        FAIL() << "read";
    } catch (const UserError& error) {
        EXPECT_EQ(error.what(), path("none") + ": cannot be opened");
    }
}

}  // namespace
}  // namespace stretto
