#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/archive.h"
#include "base/error.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;

class ArchiveTest : public testing::Test {
protected:
    void SetUp() override {
        folder_ = fs::temp_directory_path() / ("stretto-archive-" + std::to_string(::getpid()));
        fs::create_directories(folder_);
    }
    void TearDown() override { fs::remove_all(folder_); }

    [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }

    void write(const std::string& name) const {
        const std::string words = "some words";
        const std::vector<ArchiveEntry> entries{{"b/text.txt", bytes_of(words)}, {"a/empty", {}}};
        write_archive(path(name), entries);
    }

    static std::string contents(const std::string& path) {
        std::ifstream file(path, std::ios::binary);
        return {std::istreambuf_iterator<char>(file), {}};
    }

    static std::string error_of(const std::string& path) {
        try {
            static_cast<void>(ArchiveReader(path, "see the manual").text("b/text.txt"));
        } catch (const UserError& error) {
            return error.what();
        }
        return "no error";
    }

private:
    fs::path folder_;
};

TEST_F(ArchiveTest, ReadsBackWhatWasWrittenInItsOrder) {
    write("x.zip");
    const ArchiveReader reader(path("x.zip"), "");
    EXPECT_EQ(reader.names(), (std::vector<std::string>{"b/text.txt", "a/empty"}));
    EXPECT_EQ(reader.text("b/text.txt"), "some words");
    EXPECT_EQ(reader.text("a/empty"), "");
}

TEST_F(ArchiveTest, SameEntriesGiveTheSameBytes) {
    write("x.zip");
    write("y.zip");
    EXPECT_EQ(contents(path("x.zip")), contents(path("y.zip")));
}

TEST_F(ArchiveTest, LeavesNothingBesideTheFinishedFile) {
    write("x.zip");
    const fs::path folder = fs::path(path("x.zip")).parent_path();
    EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
}

TEST_F(ArchiveTest, AMissingFileIsNamed) {
    EXPECT_EQ(error_of(path("none.zip")), path("none.zip") + ": there is no such file");
}

TEST_F(ArchiveTest, AForeignFileIsNamedWithWhatWritesTheRightOnes) {
    std::ofstream(path("x.zip")) << "no archive at all, just text";
    EXPECT_EQ(error_of(path("x.zip")),
              path("x.zip") + ": cannot be read as an archive (Not a zip archive); see the manual");
}

TEST_F(ArchiveTest, AMissingEntryIsNamed) {
    write_archive(path("x.zip"), std::vector<ArchiveEntry>{{"a", {}}});
    EXPECT_EQ(error_of(path("x.zip")), path("x.zip") + ": entry 'b/text.txt' is missing");
}

TEST_F(ArchiveTest, EveryTruncationIsAnError) {
    write("x.zip");
    const std::string whole = contents(path("x.zip"));
    for (std::size_t size = 0; size < whole.size(); ++size) {
        std::ofstream(path("y.zip"), std::ios::binary) << whole.substr(0, size);
        EXPECT_NE(error_of(path("y.zip")), "no error") << size << " bytes";
    }
}

TEST_F(ArchiveTest, AChangedByteOfAnEntryIsFound) {
    write("x.zip");
    std::string whole = contents(path("x.zip"));
    whole[whole.find("some words")] ^= 1;
    std::ofstream(path("y.zip"), std::ios::binary) << whole;
    EXPECT_NE(error_of(path("y.zip")).find("entry 'b/text.txt' is damaged"), std::string::npos);
}

TEST_F(ArchiveTest, AFolderThatDoesNotExistIsAnErrorThatNamesTheFile) {
    EXPECT_THROW(write("no/such/folder/x.zip"), UserError);
}

}  // namespace
}  // namespace stretto
