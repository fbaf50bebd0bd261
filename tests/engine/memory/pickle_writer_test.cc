#include "engine/memory/pickle_writer.h"

#include <gtest/gtest.h>

namespace gpupool::engine {
namespace {

std::string Number(uint64_t value) {
  PickleWriter writer;
  writer.Number(value);
  const std::string pickle = writer.Take();
  return pickle.substr(2, pickle.size() - 3);
}

std::string Text(absl::string_view text) {
  PickleWriter writer;
  writer.String(text);
  const std::string pickle = writer.Take();
  return pickle.substr(7, pickle.size() - 8);
}

TEST(PickleWriterTest, NumbersTakeTheFewestBytes) {
  EXPECT_EQ(Number(0), std::string("K\0", 2));
  EXPECT_EQ(Number(255), "K\xff");
  EXPECT_EQ(Number(256), std::string("M\0\1", 3));
  EXPECT_EQ(Number(65536), std::string("J\0\0\1\0", 5));
  EXPECT_EQ(Number(0x7fffffff), "J\xff\xff\xff\x7f");
  EXPECT_EQ(Number(0x80000000), std::string("\x8a\x08\0\0\0\x80\0\0\0\0", 10))
      << "four bytes would be read as a negative number";
  EXPECT_EQ(Number(uint64_t{1} << 63),
            std::string("\x8a\x09\0\0\0\0\0\0\0\x80\0", 11));
}

TEST(PickleWriterTest, ContainersNest) {
  PickleWriter writer;
  writer.BeginDictionary();
  writer.Key("a");
  writer.BeginList();
  writer.Boolean(true);
  writer.Pair(1, 2);
  writer.EndList();
  writer.Key("b");
  writer.BeginList();
  writer.EndList();
  writer.EndDictionary();
  EXPECT_EQ(writer.Take(), std::string("\x80\x02}(X\1\0\0\0a](\x88K\1K\2\x86"
                                       "eX\1\0\0\0b]u.",
                                       28));
}

TEST(PickleWriterTest, ListsAreWrittenInBatchesOfAThousand) {
  PickleWriter writer;
  writer.BeginList();
  for (int i = 0; i < 2000; ++i) writer.Boolean(false);
  writer.EndList();
  const std::string batch = "(" + std::string(1000, '\x89') + "e";
  EXPECT_EQ(writer.Take(), "\x80\x02]" + batch + batch + ".");
}

TEST(PickleWriterTest, BytesThatAreNotUtf8BecomeQuestionMarks) {
  EXPECT_EQ(Text("job 7"), "job 7");
  EXPECT_EQ(Text("Modell \xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"),
            "Modell \xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
  EXPECT_EQ(Text("\xc3"), "?") << "cut off";
  EXPECT_EQ(Text("\xc0\xaf"), "??") << "longer than needed";
  EXPECT_EQ(Text("\xed\xa0\x80"), "???") << "half of a pair";
  EXPECT_EQ(Text("\xf4\x90\x80\x80"), "????") << "beyond Unicode";
}

}  // namespace
}  // namespace gpupool::engine
