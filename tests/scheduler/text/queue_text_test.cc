#include "scheduler/text/queue_text.h"

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"

namespace gpupool::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(QueueTextTest, EveryFieldIsSet) {
  const auto queues = ParseQueues(
      " short : order=las, rank=-7, preempts=yes, devices=cuda:0+cpu, most=3,"
      "tenants=a+b.c, hysteresis=1.5, min-run=9 ;; big",
      {.order = Order::kBackfill, .hysteresis = 4});
  ASSERT_TRUE(queues.ok()) << queues.status();
  ASSERT_EQ(queues->size(), 2u);
  const Queue& queue = queues->front();
  EXPECT_EQ(queue.name, "short");
  EXPECT_EQ(queue.order, Order::kLeastAttained);
  EXPECT_EQ(queue.rank, -7);
  EXPECT_TRUE(queue.preempts);
  EXPECT_THAT(queue.devices, ElementsAre("cuda:0", "cpu"));
  EXPECT_EQ(queue.most, 3u);
  EXPECT_THAT(queue.tenants, ElementsAre("a", "b.c"));
  EXPECT_EQ(queue.hysteresis, 1.5);
  EXPECT_EQ(queue.min_run, absl::Seconds(9));
  EXPECT_EQ(queues->back().name, "big");
  EXPECT_EQ(queues->back().order, Order::kBackfill);
  EXPECT_EQ(queues->back().hysteresis, 4);
}

TEST(QueueTextTest, YamlsWordsForYesAndNoAreKnown) {
  EXPECT_TRUE(ParseQueues("a:preempts=true", {})->front().preempts);
  EXPECT_FALSE(ParseQueues("a:preempts=false", {})->front().preempts);
}

TEST(QueueTextTest, ErrorsSayWhereTheEntryAndTheWordStand) {
  const NamedWords queue{.name = "a",
                         .words = {{"rank", "x", " at line 3, column 9"}},
                         .where = " at line 2, column 5"};
  EXPECT_THAT(std::string(MakeQueues({queue}, {}).status().message()),
              HasSubstr("queue 'a' at line 2, column 5: rank=x at line 3, "
                        "column 9; a rank is from"));
}

TEST(QueueTextTest, NoTextIsNoQueue) {
  EXPECT_TRUE(ParseQueues("", {}).value().empty());
}

TEST(QueueTextTest, MistakesAreNamedWithWhatIsAllowed) {
  const std::pair<const char*, const char*> cases[] = {
      {"a b", "queue 'a b': is no name"},
      {"a:order=best", "order=best; must be fifo, priority, easy, fair, las"},
      {"a:rank=1001", "rank=1001; a rank is from -1000 to 1000"},
      {"a:preempts=1", "preempts=1; must be yes or no"},
      {"a:devices=gpu0", "devices=gpu0; name devices or kinds"},
      {"a:devices=", "devices=; name devices or kinds"},
      {"a:devices=cuda:x", "name devices or kinds"},
      {"a:most=0", "most=0; a number of devices is from 1"},
      {"a:tenants=x/y", "tenants=x/y; name tenants"},
      {"a:hysteresis=0.5", "hysteresis=0.5; must be a number 1 .. 1000"},
      {"a:min-run=-1", "min-run=-1; must be a number of seconds"},
      {"a:weight=1", "weight=1; known are order="},
      {"a;a:rank=1", "queue 'a': is there twice"},
  };
  for (const auto& [text, fragment] : cases) {
    const auto queues = ParseQueues(text, {});
    ASSERT_FALSE(queues.ok()) << text;
    EXPECT_THAT(std::string(queues.status().message()), HasSubstr(fragment));
  }
  std::string many;
  for (int i = 0; i < 40; ++i) absl::StrAppend(&many, "q", i, ";");
  EXPECT_THAT(std::string(ParseQueues(many, {}).status().message()),
              HasSubstr("more than 31 queues"));
}

}  // namespace
}  // namespace gpupool::scheduler
