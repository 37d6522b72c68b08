#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>

#include "base/archive.h"
#include "base/error.h"
#include "runtime/program.h"
#include "runtime/programs.h"
#include "schedule/text.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;
using test::floats_of;
using test::linear_program;

std::string contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << "nothing to replace: " << from << " in\n" << text;
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

class PackageTest : public testing::Test {
protected:
    void SetUp() override {
        folder_ = fs::temp_directory_path() / ("stretto-package-" + std::to_string(::getpid()));
        fs::create_directories(folder_);
        save_program(linear_program(), path("good"));
    }
    void TearDown() override { fs::remove_all(folder_); }

    [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }

    /// Rewrites one entry of the good package and returns the error of loading the result, without its path.
    std::string error_after(const std::string& entry,
                            const std::function<std::string(std::string)>& edit) const {
        const ArchiveReader reader(path("good"), "");
        std::vector<std::pair<std::string, std::string>> texts;
        for (const std::string& name : reader.names()) texts.emplace_back(name, reader.text(name));
        std::vector<ArchiveEntry> entries;
        for (auto& [name, text] : texts) {
            if (name == entry) text = edit(text);
            entries.push_back({name, bytes_of(text)});
        }
        write_archive(path("bad"), entries);
        return error_of(path("bad"));
    }

    static std::string error_of(const std::string& file) {
        try {
            static_cast<void>(load_program(file));
        } catch (const UserError& error) {
            const std::string message = error.what();
            EXPECT_TRUE(message.starts_with(file)) << message;
            return message.substr(file.size());
        }
        return "no error";
    }

private:
    fs::path folder_;
};

TEST_F(PackageTest, ComesBackAsItWas) {
    Program program = linear_program();
    program.front_end = "what only the front end \"understands\"";
    save_program(program, path("full"));
    const Program loaded = load_program(path("full"));
    EXPECT_EQ(loaded.front_end, program.front_end);
    EXPECT_EQ(to_text(loaded.plan), to_text(program.plan));
    EXPECT_EQ(to_json(loaded.machine), to_json(program.machine));
    EXPECT_EQ(loaded.provenance, program.provenance);
    EXPECT_EQ(loaded.emission.source, program.emission.source);
    EXPECT_EQ(loaded.emission.records, program.emission.records);
    EXPECT_EQ(loaded.inputs, program.inputs);
    EXPECT_EQ(loaded.outputs, program.outputs);
    ASSERT_EQ(loaded.tensors.size(), 2U);
    EXPECT_EQ(floats_of(loaded.tensors.at("weight")), floats_of(program.tensors.at("weight")));
    EXPECT_EQ(floats_of(loaded.tensors.at("bias")), floats_of(program.tensors.at("bias")));
}

TEST_F(PackageTest, TheSameProgramGivesTheSameBytes) {
    save_program(linear_program(), path("again"));
    EXPECT_EQ(contents(path("again")), contents(path("good")));
}

TEST_F(PackageTest, SavingWhatWasLoadedGivesTheSameBytes) {
    save_program(load_program(path("good")), path("again"));
    EXPECT_EQ(contents(path("again")), contents(path("good")));
}

TEST_F(PackageTest, TiedWeightsAreStoredOnceAndStayTied) {
    save_program(test::tied_program(), path("tied"));
    EXPECT_EQ(ArchiveReader(path("tied"), "").names(),
              (std::vector<std::string>{"program.json", "plan.txt", "kernel.cu", "weights/0"}));
    const Program loaded = load_program(path("tied"));
    EXPECT_EQ(loaded.tensors.at("a").bytes, loaded.tensors.at("b").bytes);
}

TEST_F(PackageTest, AFileThatIsNoArchiveIsNamed) {
    write(path("text"), "hello");
    EXPECT_EQ(error_of(path("text")),
              ": cannot be read as an archive (Not a zip archive); "
              "'stretto compile model.pt2 -o model.stretto' writes such files");
}

TEST_F(PackageTest, AForeignArchiveIsNamed) {
    write_archive(path("other"), std::vector<ArchiveEntry>{{"models/model.json", bytes_of("{}")}});
    EXPECT_EQ(error_of(path("other")),
              ": is an archive, but no Stretto program; "
              "'stretto compile model.pt2 -o model.stretto' writes such files");
}

TEST_F(PackageTest, AnotherFormatSaysWhatToDo) {
    EXPECT_EQ(
        error_after("program.json",
                    [](auto text) { return replaced(text, "\"format\": 1", "\"format\": 7"); }),
        ": program.json: format: Stretto 0.1.0 reads format 1, the file has 7; compile the model again");
}

TEST_F(PackageTest, BrokenJsonIsNamed) {
    EXPECT_EQ(error_after("program.json", [](auto text) { return text.substr(0, text.size() / 2); }),
              ": program.json: the text is not JSON");
}

TEST_F(PackageTest, AWrongTypeInTheBindingTableNamesTheField) {
    EXPECT_EQ(
        error_after("program.json",
                    [](auto text) { return replaced(text, "\"dtype\": \"f32\"", "\"dtype\": \"bf16\""); }),
        ": program.json: bindings[0].dtype: is bf16, but plan.txt says f32");
}

TEST_F(PackageTest, AnUnknownInputNamesTheField) {
    EXPECT_EQ(error_after("program.json", [](auto text) { return replaced(text, "\"x\"", "\"z\""); }),
              ": program.json: inputs[0]: the program has no tensor 'z'; it has x, y");
}

TEST_F(PackageTest, AMissingFieldOfTheMachineIsNamed) {
    EXPECT_EQ(error_after("program.json", [](auto text) { return replaced(text, "\"arch\"", "\"arc\""); }),
              ": program.json: machine: machine: unknown field 'arc'; compare with machines/h200.json");
}

TEST_F(PackageTest, WeightsOfAnotherSizeAreNamed) {
    const std::string error = error_after("weights/0", [](auto text) { return text + "more"; });
    EXPECT_NE(error.find("entry 'weights/0' has"), std::string::npos) << error;
}

TEST_F(PackageTest, APlanThatDoesNotParseIsNamed) {
    const std::string error =
        error_after("plan.txt", [](auto text) { return replaced(text, "plan", "plam"); });
    EXPECT_TRUE(error.starts_with(": plan.txt: ")) << error;
}

TEST_F(PackageTest, AnUnsafePlanIsRefusedWithItsFaults) {
    Program program = linear_program();
    program.plan.workers[0].queue.pop_back();
    save_program(program, path("unsafe"));
    const std::string error = error_of(path("unsafe"));
    EXPECT_NE(error.find("plan.txt is not safe to run"), std::string::npos) << error;
}

TEST_F(PackageTest, APlanThatHidesAReadIsRefused) {
    Program program = linear_program();
    program.plan.graph.tasks[0].reads.pop_back();
    save_program(program, path("forged"));
    const std::string error = error_of(path("forged"));
    EXPECT_NE(error.find("reads other bytes than the plan says; compile the model again"), std::string::npos)
        << error;
}

TEST_F(PackageTest, ASourceOfAnotherVersionIsRefused) {
    EXPECT_EQ(error_after("kernel.cu", [](auto text) { return text + "// changed\n"; }),
              ": kernel.cu is not what Stretto 0.1.0 emits for plan.txt; compile the model again");
}

TEST_F(PackageTest, EveryTruncationIsAnError) {
    const std::string whole = contents(path("good"));
    for (std::size_t size = 0; size < whole.size(); size += 97) {
        write(path("cut"), whole.substr(0, size));
        EXPECT_NE(error_of(path("cut")), "no error") << size << " bytes";
    }
}

TEST_F(PackageTest, FlippedBitsNeverCrash) {
    const std::string whole = contents(path("good"));
    std::mt19937_64 random(3);
    int errors = 0;
    for (int i = 0; i < 300; ++i) {
        std::string flipped = whole;
        flipped[random() % flipped.size()] ^= static_cast<char>(1 << random() % 8);
        write(path("flipped"), flipped);
        errors += error_of(path("flipped")) != "no error";
    }
    EXPECT_GT(errors, 250);
}

}  // namespace
}  // namespace stretto
