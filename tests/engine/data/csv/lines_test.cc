#include "engine/data/csv/lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

// Gives a few bytes at a time, as packed files do.
class SlowStream : public ByteStream {
 public:
  explicit SlowStream(std::string_view bytes) : bytes_(bytes) {}
  absl::StatusOr<size_t> Read(absl::Span<char> out) override {
    const size_t count = std::min<size_t>({out.size(), bytes_.size(), 2});
    std::copy_n(bytes_.begin(), count, out.begin());
    bytes_.remove_prefix(count);
    return count;
  }

 private:
  std::string_view bytes_;
};

using Records = std::vector<std::pair<uint64_t, std::string>>;

// Returns the records with the numbers of their first lines.
Records ReadRecords(ByteStream& stream, absl::Status& end) {
  CsvLines lines(stream);
  Records records;
  for (;;) {
    const auto next = lines.Next();
    end = next.status();
    if (!next.ok() || !next->has_value()) return records;
    records.emplace_back(lines.line_number(), **next);
  }
}

Records RecordsOf(std::string_view text) {
  absl::Status end;
  const auto whole = PlainStream(text);
  const Records records = ReadRecords(*whole, end);
  EXPECT_TRUE(end.ok()) << end;
  SlowStream slow(text);
  EXPECT_EQ(ReadRecords(slow, end), records) << "in parts of two bytes";
  return records;
}

std::string LineError(std::string_view text) {
  absl::Status end;
  const auto stream = PlainStream(text);
  ReadRecords(*stream, end);
  EXPECT_EQ(end.code(), absl::StatusCode::kInvalidArgument);
  return std::string(end.message());
}

TEST(CsvLinesTest, EitherLineEndAndNoneEndRecords) {
  EXPECT_THAT(RecordsOf("a\r\nb\n\nc"), ElementsAre(Pair(1, "a"), Pair(2, "b"),
                                                    Pair(3, ""), Pair(4, "c")));
  EXPECT_THAT(RecordsOf("a\n"), ElementsAre(Pair(1, "a")));
  EXPECT_THAT(RecordsOf(""), ElementsAre());
}

TEST(CsvLinesTest, AByteOrderMarkIsSkippedAtTheStartOnly) {
  EXPECT_THAT(RecordsOf("\xEF\xBB\xBF"
                        "a\n\xEF\xBB\xBF"
                        "b"),
              ElementsAre(Pair(1, "a"), Pair(2,
                                             "\xEF\xBB\xBF"
                                             "b")));
  EXPECT_THAT(RecordsOf("\xEF\xBB\xBF"), ElementsAre());
  EXPECT_THAT(RecordsOf("\xEF\xBB\xBF\"a\nb\",2\n"),
              ElementsAre(Pair(1, "\"a\nb\",2")));
}

TEST(CsvLinesTest, QuotesHoldLineEnds) {
  EXPECT_THAT(RecordsOf("1,\"a\nb\r\n\"\"c\n\"\n2,x\n"),
              ElementsAre(Pair(1, "1,\"a\nb\r\n\"\"c\n\""), Pair(5, "2,x")));
  EXPECT_THAT(RecordsOf("5\" pipe\n6\" pipe\n"),
              ElementsAre(Pair(1, "5\" pipe"), Pair(2, "6\" pipe")));
}

TEST(CsvLinesTest, QuotesThatStayOpenAreRefused) {
  EXPECT_THAT(LineError("1,\"a\n2,b\n"), HasSubstr("quotes that never ends"));
  EXPECT_THAT(LineError("1,\"a"), HasSubstr("quotes that never ends"));
  std::string text = "1,\"a\n";
  for (int i = 0; i < 200'000; ++i) text += "2,b,c,d\n";
  EXPECT_THAT(LineError(text),
              HasSubstr("goes on in quotes for more than 1048576 bytes after"));
}

TEST(CsvLinesTest, BytesBeforeTheFirstLineEndDoNotCountAsQuoted) {
  const std::string first = std::string(2 << 20, '1') + ",\"a\n";
  EXPECT_EQ(RecordsOf(first + "b\nc\"\n2\n").size(), 2u);
}

TEST(CsvLinesTest, QuotesOfJsonHoldNoLineEnds) {
  const std::string_view text = "{\"a\nb\r\n\"";
  const auto stream = PlainStream(text);
  CsvLines lines(*stream, LineForm::kJson);
  for (const char* line : {"{\"a", "b", "\""}) {
    const auto next = lines.Next();
    ASSERT_TRUE(next.ok()) << next.status();
    ASSERT_TRUE(next->has_value()) << line;
    EXPECT_EQ(**next, line);
  }
  EXPECT_EQ(lines.line_number(), 3u);
  const auto end = lines.Next();
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_FALSE(end->has_value());
}

TEST(CsvLinesTest, LinesAreBounded) {
  const std::string text((64 << 20) + (1 << 20), '1');
  EXPECT_THAT(LineError(text), HasSubstr("is longer than 67108864 bytes; is "
                                         "this a CSV file?"));
  const auto stream = PlainStream(text);
  CsvLines lines(*stream, LineForm::kJson);
  EXPECT_THAT(std::string(lines.Next().status().message()),
              HasSubstr("is longer than 67108864 bytes; write each object"));
}

}  // namespace
}  // namespace gpupool::engine
