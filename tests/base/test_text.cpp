#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/text.h"

namespace stretto {
namespace {

template <class Read>
std::string error_of(std::string_view text, Read read) {
    Reader in(text, "test text");
    try {
        read(in);
    } catch (const UserError& error) {
        return error.what();
    }
    return "no error";
}

double round_trip(double value) {
    Writer out;
    out.put(value);
    return Reader(out.text(), "number").number();
}

std::vector<std::byte> counting_bytes(std::size_t count) {
    std::vector<std::byte> bytes(count);
    for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * 37 + 11);
    return bytes;
}

TEST(Text, CommentsAndLineBreaksOnlySeparate) {
    Reader in("  a # b [ \"\n\n  [ 1,  # two\n2 ]", "test text");
    EXPECT_EQ(in.word(), "a");
    EXPECT_EQ(in.shape(), (Shape{1, 2}));
    EXPECT_TRUE(in.at_end());
}

TEST(Text, AWordIsAcceptedWholeOnly) {
    Reader in("mapping", "test text");
    EXPECT_FALSE(in.accept("map"));
    EXPECT_TRUE(in.accept("mapping"));
}

TEST(Text, DoublesReadBackExactly) {
    using Limits = std::numeric_limits<double>;
    for (double value : {0.1, -1.0 / 3, 1e300, Limits::denorm_min(), Limits::max(), Limits::infinity(),
                         -Limits::infinity()}) {
        EXPECT_EQ(round_trip(value), value);
    }
    EXPECT_TRUE(std::signbit(round_trip(-0.0)));
    EXPECT_TRUE(std::isnan(round_trip(Limits::quiet_NaN())));
}

TEST(Text, StringsEscapeWhatWouldEndThem) {
    Writer out;
    out.put(Quoted{"a\"b\\c\nd\x01"});
    EXPECT_EQ(out.text(), R"("a\"b\\c\nd\x01")");
    EXPECT_EQ(Reader(out.text(), "string").quoted(), "a\"b\\c\nd\x01");
}

TEST(Text, FewBytesAreHexadecimal) {
    const std::vector<std::byte> bytes{std::byte{0x00}, std::byte{0xff}, std::byte{0x2a}};
    Writer out;
    out.put(Blob{bytes});
    EXPECT_EQ(out.text(), "hex \"00ff2a\"");
}

TEST(Text, BytesOfEveryLengthReadBack) {
    for (std::size_t count = 0; count < 140; ++count) {
        const auto bytes = counting_bytes(count);
        Writer out;
        out.put(Blob{bytes});
        EXPECT_EQ(Reader(out.text(), "bytes").blob(), bytes) << out.text();
    }
}

TEST(Text, LinesAreIndentedInsideBraces) {
    Writer out;
    out.line("outer");
    out.open();
    out.line("inner");
    out.close();
    EXPECT_EQ(out.take_document(), "outer {\n    inner\n}\n");
}

TEST(Text, ErrorsSayWhereWhatWasExpectedAndWhatWasFound) {
    EXPECT_EQ(error_of("[1, 2,\n  three]", [](Reader& in) { in.shape(); }),
              "test text, line 2, column 3: expected an integer of 64 bits, found 'three'");
    EXPECT_EQ(error_of("[1", [](Reader& in) { in.shape(); }),
              "test text, line 1, column 3: expected ']', found the end of the text");
    EXPECT_EQ(error_of("b12", [](Reader& in) { in.expect_label('b', 3); }),
              "test text, line 1, column 1: expected 'b3', the next one of its table, found 'b12'");
    EXPECT_EQ(error_of("x900", [](Reader& in) { in.number_of_label('x', 2, 256); }),
              "test text, line 1, column 2: expected an integer from 2 to 256, found '900'");
    EXPECT_EQ(error_of("\"open\nstring\"", [](Reader& in) { in.quoted(); }),
              "test text, line 1, column 1: expected a string that ends on its line, found '\"'");
}

TEST(Text, NumbersThatDoNotFitAreErrors) {
    EXPECT_EQ(error_of("99999999999999999999", [](Reader& in) { in.integer(); }),
              "test text, line 1, column 1: expected an integer of 64 bits, found '99999999999999999999'");
    EXPECT_EQ(error_of("b3000000000", [](Reader& in) { in.id<BufferId>(); }),
              "test text, line 1, column 2: expected an integer from -2147483648 to 2147483647, found "
              "'3000000000'");
}

}  // namespace
}  // namespace stretto
