#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/archive.h"
#include "import/program_json.h"

namespace stretto {
namespace {

/// A .pt2 archive as torch.export.save lays it out: y = w + x, with w taken from `data/weights/weight_0`.
class Pt2Test : public testing::Test {
protected:
    Pt2Test() {
        program_.parameter("fc.weight", DType::F32, {2, 3}).user("x", DType::F32, {2, 3});
        program_.node("aten.add.Tensor", {{"self", tensor("held_0")}, {"other", tensor("x")}}, "y",
                      DType::F32, {2, 3});
        program_.output("y");
        set("models/model.json", program_.text());
        describe(ProgramJson::meta(DType::F32, {2, 3}));
        set_numbers({1, 2, 3, 4, 5, 6});
        set("byteorder", "little");
    }
    ~Pt2Test() override { std::filesystem::remove(path_); }

    void set(const std::string& entry, const std::string& text) { entries_["step/" + entry] = text; }
    void remove(const std::string& entry) { entries_.erase("step/" + entry); }
    void describe(const std::string& meta, const std::string& pickled = "false") {
        set("data/weights/model_weights_config.json",
            fmt::format(
                R"({{"config":{{"fc.weight":{{"path_name":"weight_0","use_pickle":{},"tensor_meta":{}}}}}}})",
                pickled, meta));
    }
    void set_numbers(const Elements& elements) {
        const auto bytes = to_bytes(elements, DType::F32);
        set("data/weights/weight_0", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    }

    [[nodiscard]] Imported import() const {
        write();
        return import_pt2(path_);
    }
    /// The error without the path of the file.
    [[nodiscard]] std::string error() const {
        std::string text = error_of([&] { (void)import(); });
        for (std::size_t at = text.find(path_); at != std::string::npos; at = text.find(path_)) {
            text.replace(at, path_.size(), "step.pt2");
        }
        return text;
    }
    [[nodiscard]] Elements weight() const {
        const HostTensor held = import().tensors.at("fc.weight");
        EXPECT_EQ(held.size, 24U);
        return from_bytes(held.bytes.get(), volume(held.shape), held.dtype);
    }
    void write() const {
        std::vector<ArchiveEntry> list;
        for (const auto& [name, text] : entries_) list.push_back({name, bytes_of(text)});
        write_archive(path_, list);
    }

    const std::string path_ =
        std::filesystem::temp_directory_path() /
        fmt::format("stretto-{}.pt2", testing::UnitTest::GetInstance()->current_test_info()->name());

private:
    ProgramJson program_;
    std::map<std::string, std::string> entries_;
};

TEST_F(Pt2Test, ReadsProgramAndWeights) {
    EXPECT_EQ(weight(), (Elements{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(import().user_outputs, (std::vector<std::string>{"y"}));
}

TEST_F(Pt2Test, MakesStridedWeightsDense) {
    describe(ProgramJson::meta(DType::F32, {2, 3}, {1, 2}, 0));
    EXPECT_EQ(weight(), (Elements{1, 3, 5, 2, 4, 6}));
}

TEST_F(Pt2Test, ReadsAWeightInsideALargerStorage) {
    describe(ProgramJson::meta(DType::F32, {2, 3}, {3, 1}, 2));
    set_numbers({9, 9, 1, 2, 3, 4, 5, 6, 9});
    EXPECT_EQ(weight(), (Elements{1, 2, 3, 4, 5, 6}));
}

TEST_F(Pt2Test, WeightsThatAreNotThereAreBoundLater) {
    remove("data/weights/model_weights_config.json");
    EXPECT_TRUE(import().tensors.empty());
}

TEST_F(Pt2Test, ReportsAMissingEntry) {
    remove("data/weights/weight_0");
    EXPECT_EQ(error(), "step.pt2: entry 'step/data/weights/weight_0' is missing");
}

TEST_F(Pt2Test, ReportsAWeightThatIsTooShort) {
    set_numbers({1, 2, 3, 4, 5});
    EXPECT_EQ(
        error(),
        "step.pt2: tensor 'fc.weight' needs 24 bytes of entry 'step/data/weights/weight_0', which has 20");
}

TEST_F(Pt2Test, ReportsAWeightOfAnotherType) {
    describe(ProgramJson::meta(DType::BF16, {2, 3}));
    EXPECT_EQ(
        error(),
        "step.pt2: tensor 'fc.weight' is bf16 [2, 3] of 12 bytes; the program needs f32 [2, 3] of 24 bytes");
}

TEST_F(Pt2Test, ReportsAPickledWeight) {
    describe(ProgramJson::meta(DType::F32, {2, 3}), "true");
    EXPECT_EQ(error(), "step.pt2: tensor 'fc.weight' is pickled; save dense tensors only");
}

TEST_F(Pt2Test, ReportsBigEndianArchives) {
    set("byteorder", "big");
    EXPECT_EQ(error(), "step.pt2: its tensors are stored big-endian, only little-endian is supported");
}

TEST_F(Pt2Test, ReportsAnArchiveWithoutAModel) {
    remove("models/model.json");
    EXPECT_EQ(error(), "step.pt2: no model in it (models/*.json); torch.export.save writes such files");
}

TEST_F(Pt2Test, NamesTheEntryAndTheFieldOfABadConfig) {
    describe("{}");
    EXPECT_EQ(error(),
              "step.pt2: step/data/weights/model_weights_config.json: config.fc.weight.tensor_meta: field "
              "'dtype' is "
              "missing");
}

TEST_F(Pt2Test, ReportsATruncatedFile) {
    write();
    std::filesystem::resize_file(path_, std::filesystem::file_size(path_) / 2);
    EXPECT_TRUE(
        error_of([&] { (void)import_pt2(path_); }).starts_with(path_ + ": cannot be read as an archive"));
}

TEST_F(Pt2Test, ReportsDamagedBytes) {
    write();
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const auto bytes = to_bytes({3, 4}, DType::F32);
    const std::size_t at = text.find(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    ASSERT_NE(at, std::string::npos);
    file.seekp(static_cast<std::streamoff>(at));
    file.put('\1');
    file.close();
    EXPECT_NE(error_of([&] { (void)import_pt2(path_); }).find("'step/data/weights/weight_0' is damaged"),
              std::string::npos);
}

TEST(Pt2, ReportsAFileThatIsNotThere) {
    EXPECT_EQ(error_of([] { (void)import_pt2("/nonexistent/step.pt2"); }),
              "/nonexistent/step.pt2: there is no such file");
}

}  // namespace
}  // namespace stretto
