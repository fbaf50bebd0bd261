// JSON lines that are written in every legal way hold the same table, and
// damaged ones end in a table or in an error that names a place, never in a
// crash. Both from a printed seed.
//
// GPUPOOL_FUZZ_ROUNDS sets the rounds (1000), GPUPOOL_FUZZ_SEED the seed. A
// failure names seed and round. The same seed and round make the same bytes,
// whatever the earlier rounds were.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/utf8.h"
#include "engine/data/json_lines_reader.h"
#include "tests/engine/data/columns.h"
#include "tests/fuzz/dice.h"

namespace gpupool::engine {
namespace {

using fuzz::Dice;

constexpr uint64_t kSeedOfRows = 20261129;
constexpr int kWordsOfJson = 26;

uint64_t RowSetting(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

struct Written {
  const char* text;
  float value;
};

const std::vector<Written> kNumbers = {
    {"0", 0},         {"-0", 0},        {"7", 7},
    {"-12", -12},     {"1.5", 1.5F},    {"-0.25", -0.25F},
    {"1e2", 100},     {"25E-2", 0.25F}, {"1.0e+3", 1000},
    {"true", 1},      {"false", 0},     {"65536", 65536},
    {"0.5000", 0.5F}, {"-3e0", -3},     {"16777216", 16777216}};

// A table, and JSON lines that hold it.
struct MadeRows {
  std::string text;
  std::vector<float> features;
  std::vector<float> labels;
};

std::string Blanks(Dice& dice) {
  std::string blanks;
  while (dice.Chance(20)) blanks += dice.Chance(50) ? ' ' : '\t';
  return blanks;
}

// Returns the key in quotes, some of its letters as escapes.
std::string WrittenKey(const std::string& key, Dice& dice) {
  std::string text = "\"";
  for (const char c : key) {
    if (dice.Chance(10)) {
      absl::StrAppend(&text, "\\u00", absl::Hex(c, absl::kZeroPad2));
    } else {
      text += c;
    }
  }
  return text + "\"";
}

// Returns a number as JSON and adds its value.
std::string WrittenNumber(std::vector<float>& values, Dice& dice) {
  const Written& number = dice.OneOf(kNumbers);
  values.push_back(number.value);
  return number.text;
}

// Returns a value for a key: a number for a length of 0, else an array.
std::string WrittenValue(size_t length, std::vector<float>& values,
                         Dice& dice) {
  if (length == 0) return WrittenNumber(values, dice);
  std::string text = "[";
  for (size_t i = 0; i < length; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ",", Blanks(dice),
                    WrittenNumber(values, dice), Blanks(dice));
  }
  return text + "]";
}

std::string WrittenObject(std::vector<std::string> members, bool shuffled,
                          Dice& dice) {
  for (size_t i = members.size(); shuffled && i > 1; --i) {
    std::swap(
        members[i - 1],
        members[static_cast<size_t>(dice.Below(static_cast<int64_t>(i)))]);
  }
  std::string text = Blanks(dice) + "{";
  for (size_t i = 0; i < members.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ",", Blanks(dice), members[i],
                    Blanks(dice));
  }
  return text + "}" + Blanks(dice);
}

MadeRows MakeRows(Dice& dice) {
  MadeRows made;
  std::vector<size_t> lengths(static_cast<size_t>(dice.Between(1, 5)));
  for (size_t& length : lengths) {
    length = dice.Chance(50) ? 0 : static_cast<size_t>(dice.Between(1, 4));
  }
  const int64_t rows = dice.Between(1, 6);
  for (int64_t row = 0; row < rows; ++row) {
    std::vector<std::string> members;
    const auto add = [&](const std::string& key, const std::string& value) {
      members.push_back(absl::StrCat(WrittenKey(key, dice), Blanks(dice), ":",
                                     Blanks(dice), value));
    };
    for (size_t i = 0; i < lengths.size(); ++i) {
      add(absl::StrCat("key", i),
          WrittenValue(lengths[i], made.features, dice));
    }
    add("label", WrittenNumber(made.labels, dice));
    while (dice.Chance(10)) made.text += dice.Chance(50) ? "\n" : " \r\n";
    absl::StrAppend(&made.text, WrittenObject(members, row > 0, dice));
    if (row + 1 < rows || dice.Chance(80)) {
      made.text += dice.Chance(70) ? "\n" : "\r\n";
    }
  }
  return made;
}

TEST(HostileRowsTest, EveryWayToWriteJsonLinesIsRead) {
  const uint64_t seed = RowSetting("GPUPOOL_FUZZ_SEED", kSeedOfRows);
  const uint64_t rounds = RowSetting("GPUPOOL_FUZZ_ROUNDS", 1000);
  for (uint64_t round = 0; round < rounds; ++round) {
    Dice dice(seed, round);
    const MadeRows made = MakeRows(dice);
    SCOPED_TRACE(absl::StrCat("GPUPOOL_FUZZ_SEED=", seed, ", round ", round,
                              ":\n", made.text));
    const auto table = ReadJsonLines(made.text, {}, {});
    ASSERT_TRUE(table.ok()) << table.status();
    ASSERT_EQ(Floats(table->features()), made.features);
    ASSERT_EQ(Floats(table->labels()), made.labels);
  }
}

// Makes one to four changes: a byte, some bytes less or twice, a word of JSON
// more, or the rest cut off.
std::string Damaged(std::string text, Dice& dice) {
  const char* const words[kWordsOfJson] = {"{",
                                           "}",
                                           "[",
                                           "]",
                                           ",",
                                           ":",
                                           "\"",
                                           "null",
                                           "NaN",
                                           "1e39",
                                           "1e999",
                                           "-",
                                           "\"a\"",
                                           "\\u0000",
                                           "\\ud800",
                                           "\xFF",
                                           "\xED\xA0\x80",
                                           "\xEF\xBB\xBF",
                                           "\n",
                                           "\r",
                                           "{\"key0\":",
                                           "\"label\":",
                                           "\"\":",
                                           "99999999999999999999",
                                           "//",
                                           "'"};
  for (int64_t left = dice.Between(1, 4); left > 0 && !text.empty(); --left) {
    const auto size = static_cast<int64_t>(text.size());
    const auto at = static_cast<size_t>(dice.Below(size));
    switch (dice.Below(6)) {
      case 0:
        text[at] = static_cast<char>(dice.Below(256));
        break;
      case 1:
        text.erase(at, static_cast<size_t>(dice.Between(1, 8)));
        break;
      case 2:
        text.insert(at,
                    text.substr(at, static_cast<size_t>(dice.Between(1, 16))));
        break;
      case 3:
        if (dice.Chance(30)) text.resize(at);
        break;
      default:
        text.insert(at, words[dice.Below(kWordsOfJson)]);
    }
  }
  return text;
}

CsvOptions AnyOptions(Dice& dice) {
  CsvOptions options;
  options.label_column = static_cast<int32_t>(dice.Between(-2, 1));
  options.missing = static_cast<MissingRule>(dice.Below(4));
  if (dice.Chance(50)) options.text = TextRule::kOneHot;
  if (dice.Chance(20)) options.text_columns = {"key0"};
  if (dice.Chance(20)) options.skipped_columns = {"key1"};
  return options;
}

void CheckTable(const Table& table) {
  ASSERT_GT(table.rows, 0u);
  ASSERT_EQ(table.features().rows, table.rows);
  ASSERT_EQ(table.labels().rows, table.rows);
  for (const Column* column : {&table.features(), &table.labels()}) {
    ASSERT_GT(column->width, 0u);
    for (const float number : Floats(*column)) {
      ASSERT_TRUE(std::isfinite(number)) << number;
    }
  }
}

void CheckError(const absl::Status& status) {
  const std::string text(status.message());
  ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  ASSERT_TRUE(IsUtf8(text));
  ASSERT_LT(text.size(), 4096u);
  ASSERT_THAT(text, ::testing::AnyOf(::testing::StartsWith("line "),
                                     ::testing::StartsWith("key \""),
                                     ::testing::StartsWith("holds no row")));
}

TEST(HostileRowsTest, DamagedJsonLinesEndInATableOrAnErrorWithAPlace) {
  const uint64_t seed = RowSetting("GPUPOOL_FUZZ_SEED", kSeedOfRows);
  const uint64_t rounds = RowSetting("GPUPOOL_FUZZ_ROUNDS", 1000);
  for (uint64_t round = 0; round < rounds; ++round) {
    Dice dice(seed, round);
    const std::string text = Damaged(MakeRows(dice).text, dice);
    const CsvOptions options = AnyOptions(dice);
    SCOPED_TRACE(absl::StrCat("GPUPOOL_FUZZ_SEED=", seed, ", round ", round));
    BeginsWithObject(text);
    const auto table = ReadJsonLines(text, options, {});
    if (table.ok()) {
      CheckTable(*table);
    } else {
      CheckError(table.status());
    }
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace gpupool::engine
