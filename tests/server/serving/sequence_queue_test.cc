#include "server/serving/sequence_queue.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A request that is known by its name.
class NamedCall : public InferenceCall {
 public:
  explicit NamedCall(std::string name) : name(std::move(name)) {}
  void OnAnswer(const absl::Status&,
                absl::Span<const absl::Span<const std::byte>>) override {}
  const std::string name;
};

// A queue with a clock of its own, which notes what is launched and refused.
class SequenceQueueTest : public ::testing::Test {
 protected:
  void Make(uint32_t max_sequences, uint32_t max_waiting) {
    queue_ = std::make_unique<SequenceQueue>(
        SequenceQueueOptions{.label = "'sum' version 1",
                             .max_sequences = max_sequences,
                             .max_waiting = max_waiting,
                             .max_idle = absl::Seconds(1)});
  }

  // Adds a request. `flags` has "s" for a start and "e" for an end.
  NamedCall* Add(uint64_t id, const std::string& flags,
                 const std::string& name) {
    calls_.push_back(std::make_unique<NamedCall>(name));
    NamedCall* call = calls_.back().get();
    call->sequence = {.id = {.number = id},
                      .start = absl::StrContains(flags, "s"),
                      .end = absl::StrContains(flags, "e")};
    call->deadline = deadline_;
    Note(queue_->Add(call, now_));
    return call;
  }
  void Done(uint64_t id, const absl::Status& status = absl::OkStatus()) {
    Note(queue_->Done({.number = id}, status, now_));
  }
  void Note(const SequenceEffects& effects) {
    for (const SequenceStep& step : effects.steps) {
      launched_.push_back(static_cast<NamedCall*>(step.call)->name);
      states_[launched_.back()] = step.state;
    }
    for (const SequenceRefusal& refusal : effects.refusals) {
      refused_.push_back(static_cast<NamedCall*>(refusal.call)->name);
      status_ = refusal.status;
    }
  }
  std::vector<std::string> TakeLaunched() {
    return std::exchange(launched_, {});
  }
  std::vector<std::string> TakeRefused() { return std::exchange(refused_, {}); }

  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  absl::Time deadline_ = absl::InfiniteFuture();  // of calls that are added
  std::unique_ptr<SequenceQueue> queue_;
  std::vector<std::unique_ptr<NamedCall>> calls_;
  std::vector<std::string> launched_;
  std::vector<std::string> refused_;
  std::map<std::string, std::shared_ptr<SequenceTensors>> states_;
  absl::Status status_;  // of the last refusal
};

TEST_F(SequenceQueueTest, RequestsOfASequenceRunOneAfterTheOther) {
  Make(4, 16);
  Add(7, "s", "a");
  Add(7, "", "b");
  Add(7, "e", "c");
  EXPECT_THAT(TakeLaunched(), ElementsAre("a"));
  EXPECT_EQ(queue_->waiting(), 2u);
  Done(7);
  EXPECT_THAT(TakeLaunched(), ElementsAre("b"));
  Done(7);
  EXPECT_THAT(TakeLaunched(), ElementsAre("c"));
  EXPECT_EQ(queue_->active(), 1u);
  Done(7);
  EXPECT_EQ(queue_->active(), 0u);
  EXPECT_EQ(states_["a"], states_["b"]);
  EXPECT_EQ(states_["a"], states_["c"]);
  EXPECT_THAT(TakeRefused(), IsEmpty());
}

TEST_F(SequenceQueueTest, ASequenceBeginsWithAStart) {
  Make(4, 16);
  Add(7, "", "a");
  EXPECT_TRUE(absl::IsInvalidArgument(status_));
  EXPECT_THAT(std::string(status_.message()),
              AllOf(HasSubstr("sequence 7"),
                    HasSubstr("must specify the START flag on the first "
                              "request of the sequence")));
  Add(7, "se", "b");
  // The end is on its way, so that nothing may follow.
  Add(7, "", "c");
  EXPECT_THAT(TakeRefused(), ElementsAre("a", "c"));
  Done(7);
  Add(7, "", "d");
  EXPECT_THAT(TakeRefused(), ElementsAre("d"));
  EXPECT_THAT(TakeLaunched(), ElementsAre("b"));
}

TEST_F(SequenceQueueTest, ARequestWithoutAnIdIsRefused) {
  Make(4, 16);
  Add(0, "s", "a");
  EXPECT_TRUE(absl::IsInvalidArgument(status_));
  EXPECT_THAT(std::string(status_.message()),
              HasSubstr("must specify a non-zero or non-empty correlation ID"));
}

TEST_F(SequenceQueueTest, NumbersAndTextsAreDifferentSequences) {
  Make(4, 16);
  Add(7, "s", "a");
  NamedCall text("text");
  text.sequence = {.id = {.number = 0, .text = "7"}, .start = true};
  Note(queue_->Add(&text, now_));
  EXPECT_THAT(TakeLaunched(), ElementsAre("a", "text"));
}

TEST_F(SequenceQueueTest, AStartInTheMiddleBeginsWithANewState) {
  Make(4, 16);
  Add(7, "s", "a");
  Done(7);
  Add(7, "s", "b");
  EXPECT_THAT(TakeLaunched(), ElementsAre("a", "b"));
  EXPECT_NE(states_["a"], states_["b"]);
  EXPECT_EQ(queue_->active(), 1u);
}

TEST_F(SequenceQueueTest, SequencesWaitForAPlaceInTheOrderInWhichTheyBegan) {
  Make(2, 16);
  Add(1, "s", "1");
  Add(2, "s", "2");
  Add(3, "s", "3");
  Add(4, "s", "4");
  Add(3, "e", "3e");
  EXPECT_THAT(TakeLaunched(), ElementsAre("1", "2"));
  // An open sequence keeps its place.
  Done(1);
  EXPECT_THAT(TakeLaunched(), IsEmpty());
  Add(1, "e", "1e");
  EXPECT_THAT(TakeLaunched(), ElementsAre("1e"));
  Done(1);
  EXPECT_THAT(TakeLaunched(), ElementsAre("3"));
  Done(3);
  EXPECT_THAT(TakeLaunched(), ElementsAre("3e"));
  Done(3);
  EXPECT_THAT(TakeLaunched(), ElementsAre("4"));
  EXPECT_EQ(queue_->active(), 2u);
}

TEST_F(SequenceQueueTest, ASequenceThatBeginsAnewGoesBehindTheOthers) {
  Make(1, 16);
  Add(1, "se", "1");
  Add(1, "se", "1 again");
  Add(2, "se", "2");
  Done(1);
  EXPECT_THAT(TakeLaunched(), ElementsAre("1", "2"));
  Done(2);
  EXPECT_THAT(TakeLaunched(), ElementsAre("1 again"));
}

TEST_F(SequenceQueueTest, AFailureTakesTheRestOfTheSequenceWithIt) {
  Make(4, 16);
  Add(7, "s", "a");
  Add(7, "", "b");
  Add(7, "e", "c");
  Add(7, "s", "d");
  TakeLaunched();
  Done(7, absl::UnavailableError("the worker was lost"));
  EXPECT_THAT(TakeRefused(), ElementsAre("b", "c"));
  EXPECT_TRUE(absl::IsAborted(status_));
  EXPECT_THAT(std::string(status_.message()),
              AllOf(HasSubstr("sequence 7"), HasSubstr("the worker was lost"),
                    HasSubstr("sequence_start")));
  EXPECT_THAT(TakeLaunched(), ElementsAre("d"));
  EXPECT_NE(states_["a"], states_["d"]);
}

TEST_F(SequenceQueueTest, AfterAFailureASequenceMustBeStartedAgain) {
  Make(4, 16);
  Add(7, "s", "a");
  Done(7, absl::InvalidArgumentError("no"));
  EXPECT_EQ(queue_->active(), 0u);
  Add(7, "", "b");
  EXPECT_TRUE(absl::IsInvalidArgument(status_));
  EXPECT_THAT(TakeRefused(), ElementsAre("b"));
}

TEST_F(SequenceQueueTest, ACancelledRequestEndsItsSequenceThere) {
  Make(4, 16);
  Add(7, "s", "a");
  Add(7, "", "b");
  NamedCall* c = Add(7, "", "c");
  Add(7, "", "d");
  Note(queue_->Remove(c, absl::CancelledError("gone"), now_));
  EXPECT_THAT(TakeRefused(), ElementsAre("c", "d"));
  Add(7, "", "e");
  EXPECT_THAT(TakeRefused(), ElementsAre("e"));
  // Requests before it are computed.
  Done(7);
  EXPECT_THAT(TakeLaunched(), ElementsAre("a", "b"));
  Done(7);
  EXPECT_EQ(queue_->active(), 0u);
  // A call that does not wait is left alone.
  Note(queue_->Remove(c, absl::CancelledError("gone"), now_));
  EXPECT_THAT(TakeRefused(), IsEmpty());
}

TEST_F(SequenceQueueTest, AWaitingRequestExpires) {
  Make(1, 16);
  Add(1, "s", "1");
  deadline_ = now_ + absl::Milliseconds(5);
  Add(2, "s", "2");
  deadline_ = absl::InfiniteFuture();
  Add(2, "", "2b");
  EXPECT_EQ(queue_->next_event(), now_ + absl::Milliseconds(5));
  now_ += absl::Milliseconds(4);
  Note(queue_->Expire(now_));
  EXPECT_THAT(TakeRefused(), IsEmpty());
  now_ += absl::Milliseconds(1);
  Note(queue_->Expire(now_));
  EXPECT_THAT(TakeRefused(), ElementsAre("2", "2b"));
  EXPECT_TRUE(absl::IsAborted(status_));
  EXPECT_EQ(queue_->waiting(), 0u);
  EXPECT_EQ(queue_->next_event(), absl::InfiniteFuture());
}

TEST_F(SequenceQueueTest, AnIdleSequenceEndsAndGivesItsPlace) {
  Make(1, 16);
  Add(1, "s", "1");
  Add(2, "s", "2");
  now_ += absl::Seconds(9);  // computing is not idle
  Note(queue_->Expire(now_));
  EXPECT_THAT(TakeLaunched(), ElementsAre("1"));
  Done(1);
  EXPECT_EQ(queue_->next_event(), now_ + absl::Seconds(1));
  now_ += absl::Milliseconds(999);
  Note(queue_->Expire(now_));
  EXPECT_THAT(TakeLaunched(), IsEmpty());
  now_ += absl::Milliseconds(1);
  Note(queue_->Expire(now_));
  EXPECT_THAT(TakeLaunched(), ElementsAre("2"));
  Add(1, "", "late");
  EXPECT_THAT(TakeRefused(), ElementsAre("late"));
}

TEST_F(SequenceQueueTest, TheQueueIsBoundedButPlacesStayUsable) {
  Make(1, 2);
  Add(1, "s", "1");
  Add(2, "s", "2");
  Add(3, "s", "3");
  Add(4, "s", "4");
  EXPECT_THAT(TakeRefused(), ElementsAre("4"));
  EXPECT_TRUE(absl::IsUnavailable(status_));
  EXPECT_THAT(std::string(status_.message()),
              HasSubstr("Exceeds maximum queue size of 2"));
  // The sequence with the place can end all the same.
  Done(1);
  Add(1, "e", "1e");
  EXPECT_THAT(TakeLaunched(), ElementsAre("1", "1e"));
  Done(1);
  EXPECT_THAT(TakeLaunched(), ElementsAre("2"));
}

// A request that came in vain must leave no hole in its sequence.
TEST_F(SequenceQueueTest, ASequenceEndsBeforeARequestThatDoesNotFit) {
  Make(1, 1);
  Add(1, "s", "a");
  Add(1, "", "b");
  Add(1, "", "c");
  EXPECT_THAT(TakeRefused(), ElementsAre("c"));
  Done(1);
  Add(1, "", "d");
  EXPECT_THAT(TakeRefused(), ElementsAre("d"));
  EXPECT_TRUE(absl::IsInvalidArgument(status_));
  EXPECT_THAT(TakeLaunched(), ElementsAre("a", "b"));
  Done(1);
  EXPECT_EQ(queue_->active(), 0u);
}

TEST_F(SequenceQueueTest, ADrainLetsSequencesWithAPlaceGoOn) {
  Make(1, 16);
  Add(1, "s", "1");
  Add(1, "", "1b");
  Add(2, "s", "2");
  Note(queue_->Drain());
  EXPECT_THAT(TakeRefused(), ElementsAre("2"));
  EXPECT_TRUE(absl::IsUnavailable(status_));
  Done(1);
  EXPECT_THAT(TakeLaunched(), ElementsAre("1", "1b"));
  Add(3, "s", "3");
  EXPECT_THAT(TakeRefused(), ElementsAre("3"));
}

TEST_F(SequenceQueueTest, CloseRefusesAllThatWaitsAndAllThatComes) {
  Make(1, 16);
  Add(1, "s", "1");
  Add(1, "", "1b");
  Add(2, "s", "2");
  Note(queue_->Close(absl::UnavailableError("closed")));
  EXPECT_THAT(TakeRefused(), ElementsAre("1b", "2"));
  Add(1, "", "1c");
  EXPECT_THAT(TakeRefused(), ElementsAre("1c"));
  Done(1);
  EXPECT_EQ(queue_->active(), 0u);
  EXPECT_EQ(queue_->waiting(), 0u);
}

// Random sequences: every request is launched or refused once, those of a
// sequence in their order, and places are never exceeded.
TEST_F(SequenceQueueTest, KeepsItsPromisesForRandomRequests) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    const auto below = [&](uint32_t limit) { return random() % limit; };
    Make(3, 12);
    std::map<uint64_t, std::deque<std::string>> expected;
    std::map<uint64_t, bool> running;
    size_t added = 0;
    size_t left = 0;
    const auto look = [&] {
      // Refusals first: what they leave may be launched by the same change.
      for (const std::string& name : TakeRefused()) {
        ++left;
        auto& names = expected[std::stoull(name)];
        names.erase(std::find(names.begin(), names.end(), name));
      }
      for (const std::string& name : TakeLaunched()) {
        ++left;
        const uint64_t id = std::stoull(name);
        EXPECT_FALSE(std::exchange(running[id], true)) << name;
        ASSERT_EQ(expected[id].front(), name);
        expected[id].pop_front();
      }
      EXPECT_LE(queue_->active(), 3u);
      EXPECT_LE(queue_->waiting(), 12u);
    };
    for (int round = 0; round < 500; ++round) {
      now_ += absl::Milliseconds(below(50));
      const uint64_t id = 1 + below(6);
      if (below(2) == 0) {
        const std::string flags =
            absl::StrCat(below(3) == 0 ? "s" : "", below(4) == 0 ? "e" : "");
        const std::string name = absl::StrCat(id, " ", added++);
        expected[id].push_back(name);
        Add(id, flags, name);
      } else if (running[id]) {
        running[id] = false;
        Done(id, below(5) == 0 ? absl::InternalError("no") : absl::OkStatus());
      }
      look();
      Note(queue_->Expire(now_));
      look();
    }
    Note(queue_->Close(absl::UnavailableError("closed")));
    look();
    EXPECT_EQ(left, added);
  }
}

}  // namespace
}  // namespace gpupool::server
