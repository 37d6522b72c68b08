#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "base/error.h"
#include "base/machine.h"

namespace stretto {
namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
}

std::string error_of(const std::string& json) {
    try {
        (void)parse_machine(json);
    } catch (const UserError& error) {
        return error.what();
    }
    return "no error";
}

std::string h200() { return to_json(builtin_machine("h200")); }

TEST(Machine, H200HasTheMeasuredShape) {
    const Machine machine = builtin_machine("h200");
    EXPECT_EQ(machine.arch, "sm_90a");
    EXPECT_EQ(machine.workers, 132);
    EXPECT_EQ(machine.shared_bytes, 232448);
    EXPECT_DOUBLE_EQ(machine.bandwidth, 4.5e6);
}

TEST(Machine, CpuTakesItsWorkersFromThisComputer) { EXPECT_GE(builtin_machine("cpu").workers, 1); }

TEST(Machine, PrintsAndParsesBack) {
    const std::string text = h200();
    EXPECT_EQ(to_json(parse_machine(text)), text);
}

TEST(Machine, UnknownNameListsTheKnownOnes) {
    try {
        (void)builtin_machine("b200");
        FAIL();
    } catch (const UserError& error) {
        EXPECT_STREQ(error.what(),
                     "unknown machine 'b200'; known: 'cpu', 'h200', or a path to a machine file");
    }
}

TEST(Machine, MissingFieldIsNamed) {
    EXPECT_EQ(error_of(replaced(h200(), "    \"workers\": 132,\n", "")),
              "machine: field 'workers' is missing; compare with machines/h200.json");
}

TEST(Machine, UnknownFieldIsNamed) {
    EXPECT_EQ(error_of(replaced(h200(), "\"workers\"", "\"wrokers\"")),
              "machine: unknown field 'wrokers'; compare with machines/h200.json");
}

TEST(Machine, WrongTypeIsNamed) {
    EXPECT_EQ(error_of(replaced(h200(), "132", "\"many\"")),
              "machine: field 'workers' must be a whole number, found \"many\"");
}

TEST(Machine, NumberBelowItsLeastIsRefused) {
    EXPECT_EQ(error_of(replaced(h200(), "132", "-3")),
              "machine: field 'workers' must be at least 0, found -3");
}

TEST(Machine, TextThatIsNotJsonIsRefused) { EXPECT_EQ(error_of("{"), "machine: the text is not JSON"); }

TEST(Machine, FileErrorsNameTheFile) {
    const std::string path = testing::TempDir() + "broken_machine.json";
    std::ofstream(path) << "[]";
    try {
        (void)read_machine(path);
        FAIL();
    } catch (const UserError& error) {
        EXPECT_EQ(error.what(), path + ": machine: the text must be one JSON object");
    }
}

TEST(Machine, MissingFileIsNamed) {
    EXPECT_THROW((void)read_machine(testing::TempDir() + "no_such_machine.json"), UserError);
}

}  // namespace
}  // namespace stretto
