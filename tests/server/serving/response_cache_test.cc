#include "server/serving/response_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "absl/strings/str_cat.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;

// Inputs of a request in memory.
struct Input {
  std::string name = "x";
  std::string data_type = "FP32";
  std::vector<int64_t> shape = {1, 2};
  std::string bytes = "abcdefgh";

  TensorView View() const {
    return {
        .name = name,
        .data_type = data_type,
        .shape = shape,
        .bytes = absl::MakeConstSpan(
            reinterpret_cast<const std::byte*>(bytes.data()), bytes.size())};
  }
};

struct Request {
  uint64_t version_id = 10;
  std::string model = "digits";
  uint64_t version = 1;
  std::vector<AskedOutput> outputs = {{0}};
  std::vector<Input> inputs = {Input(), Input{.name = "y"}};
};

std::string DigestOf(const Request& request) {
  std::vector<TensorView> views;
  for (const Input& input : request.inputs) views.push_back(input.View());
  return KeyOf({.version_id = request.version_id,
                .model = request.model,
                .version = request.version,
                .outputs = request.outputs,
                .inputs = views})
      .digest;
}

TEST(CacheKeyTest, EqualRequestsHaveOneKeyInAnyOrderOfTheInputs) {
  Request turned;
  std::swap(turned.inputs[0], turned.inputs[1]);
  EXPECT_EQ(DigestOf(Request()), DigestOf(Request()));
  EXPECT_EQ(DigestOf(Request()), DigestOf(turned));
}

TEST(CacheKeyTest, EachPartOfARequestChangesTheKey) {
  std::vector<Request> requests(14);
  requests[1].version_id = 11;
  requests[2].model = "digitt";
  requests[3].version = 2;
  requests[4].outputs = {{1}};
  requests[5].outputs = {{0}, {1}};
  requests[6].outputs = {{1}, {0}};
  requests[7].inputs[1].name = "z";
  requests[8].inputs[1].data_type = "INT32";
  requests[9].inputs[1].shape = {2, 1};
  requests[10].inputs[1].bytes[7] = 'i';
  requests[11].inputs.pop_back();
  requests[12].outputs = {{0, 1}};
  requests[13].outputs = {{0, 2}};
  std::set<std::string> digests;
  for (const Request& request : requests) digests.insert(DigestOf(request));
  EXPECT_EQ(digests.size(), requests.size());
}

TEST(CacheKeyTest, BytesThatMoveFromOneFieldToTheNextChangeTheKey) {
  Request one, other;
  one.inputs = {Input{.name = "ab", .data_type = "c"}};
  other.inputs = {Input{.name = "a", .data_type = "bc"}};
  EXPECT_NE(DigestOf(one), DigestOf(other));
  one.inputs = {Input{.bytes = "abcd"}, Input{.name = "y", .bytes = "ef"}};
  other.inputs = {Input{.bytes = "abc"}, Input{.name = "y", .bytes = "def"}};
  EXPECT_NE(DigestOf(one), DigestOf(other));
}

CacheKey Key(uint64_t version_id, int number) {
  return {.version_id = version_id,
          .digest = absl::StrCat("digest ", version_id, " ", number)};
}

CachedAnswer Answer(const std::string& bytes) {
  CachedAnswer answer;
  answer.outputs.push_back(
      {.name = "scores", .data_type = "FP32", .shape = {1, 2}, .bytes = bytes});
  return answer;
}

// Returns the bytes of the answer, or "none".
std::string Found(ResponseCache& cache, const CacheKey& key) {
  const auto answer = cache.Find(key);
  return answer == nullptr ? "none" : answer->outputs.at(0).bytes;
}

// Returns what one answer with that many bytes takes.
uint64_t BytesOfOne(size_t bytes) {
  ResponseCache cache({.limit_bytes = 1 << 20});
  cache.Insert(Key(1, 0), Answer(std::string(bytes, 'a')));
  return cache.usage().bytes;
}

TEST(ResponseCacheTest, FindsWhatWasInserted) {
  ResponseCache cache({.limit_bytes = 1 << 20});
  EXPECT_EQ(Found(cache, Key(1, 0)), "none");
  cache.Insert(Key(1, 0), Answer("first"));
  cache.Insert(Key(2, 0), Answer("second"));
  EXPECT_EQ(Found(cache, Key(1, 0)), "first");
  EXPECT_EQ(Found(cache, Key(2, 0)), "second");
  EXPECT_EQ(Found(cache, Key(1, 1)), "none");
  const auto answer = cache.Find(Key(1, 0));
  EXPECT_EQ(answer->outputs[0].name, "scores");
  EXPECT_EQ(answer->outputs[0].data_type, "FP32");
  EXPECT_THAT(answer->outputs[0].shape, ElementsAre(1, 2));
}

TEST(ResponseCacheTest, TheBytesOfAllAnswersStayBelowTheLimit) {
  const uint64_t one = BytesOfOne(1000);
  EXPECT_GE(one, 1000 + ResponseCache::kOverheadBytes);
  const uint64_t limit = 10 * one + one / 2;
  ResponseCache cache({.limit_bytes = limit});
  for (int i = 0; i < 10; ++i) {
    cache.Insert(Key(1, i), Answer(std::string(1000, 'a')));
    EXPECT_EQ(cache.usage().bytes, (i + 1) * one);
  }
  // 100 answers more, as large and smaller.
  for (int i = 0; i < 100; ++i) {
    cache.Insert(Key(2, i), Answer(std::string(i * 10, 'b')));
    EXPECT_LE(cache.usage().bytes, limit);
    EXPECT_GE(cache.usage().bytes, limit - one);
  }
  EXPECT_EQ(Found(cache, Key(1, 9)), "none");
}

TEST(ResponseCacheTest, TheLeastRecentlyUsedAnswersGoFirst) {
  ResponseCache cache({.limit_bytes = 10 * BytesOfOne(1000)});
  for (int i = 0; i < 10; ++i) {
    cache.Insert(Key(1, i), Answer(std::string(1000, 'a')));
  }
  // Both uses put an answer in front: to find it, and to insert it again.
  EXPECT_NE(Found(cache, Key(1, 0)), "none");
  cache.Insert(Key(1, 1), Answer(std::string(1000, 'b')));
  EXPECT_EQ(cache.usage().answers, 10u);
  cache.Insert(Key(2, 0), Answer(std::string(1000, 'a')));
  cache.Insert(Key(2, 1), Answer(std::string(1000, 'a')));
  EXPECT_EQ(cache.usage().answers, 10u);
  EXPECT_NE(Found(cache, Key(1, 0)), "none");
  EXPECT_EQ(Found(cache, Key(1, 1)), std::string(1000, 'a')) << "the first";
  EXPECT_EQ(Found(cache, Key(1, 2)), "none");
  EXPECT_EQ(Found(cache, Key(1, 3)), "none");
  EXPECT_NE(Found(cache, Key(1, 4)), "none");
}

TEST(ResponseCacheTest, AnAnswerThatTakesMoreThanItsShareIsNotKept) {
  const uint64_t one = BytesOfOne(1000);
  ResponseCache cache({.limit_bytes = ResponseCache::kShares * one});
  cache.Insert(Key(1, 0), Answer(std::string(1000, 'a')));
  cache.Insert(Key(1, 1), Answer(std::string(1001, 'a')));
  EXPECT_NE(Found(cache, Key(1, 0)), "none");
  EXPECT_EQ(Found(cache, Key(1, 1)), "none");
  EXPECT_EQ(cache.usage().bytes, one);
  EXPECT_TRUE(cache.Takes(one));
  EXPECT_FALSE(cache.Takes(one + 1));
}

TEST(ResponseCacheTest, AnswersOfADroppedVersionGoAlone) {
  ResponseCache cache({.limit_bytes = 1 << 20});
  for (int i = 0; i < 20; ++i) {
    cache.Insert(Key(static_cast<uint64_t>(i % 2), i), Answer("a"));
  }
  const uint64_t bytes = cache.usage().bytes;
  cache.DropVersion(1);
  cache.DropVersion(7);
  EXPECT_EQ(cache.usage().answers, 10u);
  EXPECT_LT(cache.usage().bytes, bytes);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Found(cache, Key(static_cast<uint64_t>(i % 2), i)),
              i % 2 == 0 ? "a" : "none");
  }
  cache.DropVersion(0);
  EXPECT_EQ(cache.usage().bytes, 0u);
}

TEST(ResponseCacheTest, AnAnswerThatIsReadOutlivesItsEntry) {
  ResponseCache cache({.limit_bytes = 1 << 20});
  cache.Insert(Key(1, 0), Answer("kept"));
  const auto answer = cache.Find(Key(1, 0));
  cache.DropVersion(1);
  EXPECT_EQ(answer->outputs[0].bytes, "kept");
}

TEST(ResponseCacheTest, EachChangeIsReported) {
  std::vector<uint64_t> answers, evicted;
  const uint64_t one = BytesOfOne(1000);
  ResponseCache cache(
      {.limit_bytes = 8 * one, .changed = [&](const CacheUsage& usage) {
         EXPECT_EQ(usage.bytes, usage.answers * one);
         answers.push_back(usage.answers);
         evicted.push_back(usage.evicted);
       }});
  for (int i = 0; i < 9; ++i) {
    cache.Insert(Key(1, i), Answer(std::string(1000, 'a')));
  }
  cache.DropVersion(1);
  EXPECT_THAT(answers, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 8, 0));
  EXPECT_THAT(evicted, ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 1, 0));
}

// All calls at once, in a cache that is always full. Each answer has its key as
// its bytes.
TEST(ResponseCacheTest, ManyThreadsFindOnlyWhatBelongsToTheirKeys) {
  const uint64_t limit = 20 * BytesOfOne(20);
  ResponseCache cache({.limit_bytes = limit});
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&cache, t, limit] {
      for (int i = 0; i < 3000; ++i) {
        const CacheKey key = Key(t % 2, i % 50);
        const std::string found = Found(cache, key);
        EXPECT_TRUE(found == "none" || found == key.digest) << found;
        if (found == "none") cache.Insert(key, Answer(key.digest));
        if (i % 100 == 0) cache.DropVersion(t % 2);
        EXPECT_LE(cache.usage().bytes, limit);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  cache.DropVersion(0);
  cache.DropVersion(1);
  EXPECT_EQ(cache.usage().bytes, 0u);
  EXPECT_EQ(cache.usage().answers, 0u);
}

}  // namespace
}  // namespace gpupool::server
