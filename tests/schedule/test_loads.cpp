#include <gtest/gtest.h>

#include "abi/abi.h"
#include "schedule/loads.h"
#include "support/machines.h"
#include "support/sample_plan.h"

namespace stretto {
namespace {

/// What two rows that a tensor core reads at one time may have in common.
constexpr std::int64_t kBanks = 128;

TEST(Loads, RowsOfAPanelAreApartInsideItsSlot) {
    for (const std::int64_t row_bytes : {64, 192, 1152, 2048}) {
        for (std::int64_t rows = 2; rows <= abi::kPanelRows; ++rows) {
            std::vector<bool> taken(static_cast<std::size_t>(abi::panel_bytes(rows, row_bytes)));
            for (std::int64_t row = 0; row < rows; ++row) {
                const auto begin = taken.begin() + abi::panel_row(row, row_bytes);
                ASSERT_LE(begin + row_bytes, taken.end());
                EXPECT_EQ(std::count(begin, begin + row_bytes, true), 0) << "row " << row << " of " << rows;
                std::fill(begin, begin + row_bytes, true);
            }
        }
    }
}

TEST(Loads, NeighboursOfAPanelAreInDifferentBanks) {
    for (const std::int64_t row_bytes : {64, 192, 1152, 2048}) {
        for (std::int64_t row = 0; row < abi::kPanelRows; row += 2) {
            const std::int64_t even = abi::panel_row(row, row_bytes) % kBanks;
            const std::int64_t odd = abi::panel_row(row + 1, row_bytes) % kBanks;
            EXPECT_EQ((odd - even + kBanks) % kBanks, kBanks / 2) << row_bytes;
        }
    }
}

TEST(Loads, SevenRowsAndEightLeaveNoHoleOfARow) {
    EXPECT_EQ(abi::panel_bytes(8, 1152), 8 * 1152 + 64);
    EXPECT_EQ(abi::panel_bytes(7, 1152), 7 * 1152 + 64);
    EXPECT_EQ(abi::panel_bytes(6, 1152), 7 * 1152 + 64)
        << "the even rows of a panel of eight, and three odd ones";
    EXPECT_EQ(abi::panel_bytes(1, 1152), 1152);
}

TEST(Loads, WholePanelsOfParametersCanBePacked) {
    EXPECT_TRUE(can_pack(BufferRole::Parameter, 8));
    EXPECT_TRUE(can_pack(BufferRole::Constant, 7));
    EXPECT_FALSE(can_pack(BufferRole::Parameter, 6)) << "the image would be a sixth larger";
    EXPECT_FALSE(can_pack(BufferRole::Parameter, 1)) << "one copy brings it as it is";
    EXPECT_FALSE(can_pack(BufferRole::State, 8)) << "it may change from launch to launch";
    EXPECT_FALSE(can_pack(BufferRole::Input, 8));
}

TEST(Loads, PackedBytesAreThoseOfTheImages) {
    const Plan plan = sample::every_kind(h200_of(1), 1);
    std::size_t panels = 0;
    for (const Load& load : plan.workers[0].stream)
        panels += load.rows == 8 && load.row_bytes == 1152 ? 1 : 0;
    ASSERT_EQ(panels, 4U);
    EXPECT_EQ(packed_bytes(plan), 4 * 9344) << "8 x 1152 + 64, to a multiple of 128";
}

}  // namespace
}  // namespace stretto
