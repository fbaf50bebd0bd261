#include "server/trace/span_exporter.h"

#include <gmock/gmock.h>
#include <spdlog/sinks/ringbuffer_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "tests/server/trace/raw_port.h"
#include "tests/server/trace/test_collector.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

std::vector<Span> Made(size_t count) {
  Span span = {.name = "test"};
  span.trace.bytes[0] = 1;
  span.id.bytes[0] = 1;
  return std::vector<Span>(count, span);
}

class SpanExporterTest : public ::testing::Test {
 protected:
  SpanExporterOptions Options() {
    SpanExporterOptions options = collector_.options();
    options.first_wait = absl::Milliseconds(1);
    options.count = [this](SpanOutcome outcome, uint64_t spans) {
      absl::MutexLock lock(&mutex_);
      counts_[outcome] += spans;
    };
    return options;
  }
  uint64_t Counted(SpanOutcome outcome) {
    absl::MutexLock lock(&mutex_);
    return counts_[outcome];
  }
  bool Becomes(SpanOutcome outcome, uint64_t spans) {
    return WaitUntil([&] { return Counted(outcome) == spans; });
  }

  absl::Mutex mutex_;
  std::map<SpanOutcome, uint64_t> counts_ ABSL_GUARDED_BY(mutex_);
  TestCollector collector_;
};

TEST_F(SpanExporterTest, SendsSpans) {
  SpanExporter exporter(Options());
  exporter.Add(Made(3));
  EXPECT_TRUE(Becomes(SpanOutcome::kSent, 3));
  EXPECT_EQ(collector_.spans().size(), 3);
}

TEST_F(SpanExporterTest, SendsWhatWaitsAtTheEnd) {
  SpanExporterOptions options = Options();
  options.interval = absl::InfiniteDuration();
  {
    SpanExporter exporter(options);
    exporter.Add(Made(2));
  }
  EXPECT_EQ(Counted(SpanOutcome::kSent), 2);
  EXPECT_EQ(collector_.spans().size(), 2);
}

TEST_F(SpanExporterTest, DividesManySpansIntoSeveralRequests) {
  SpanExporterOptions options = Options();
  options.interval = absl::InfiniteDuration();
  {
    SpanExporter exporter(options);
    exporter.Add(Made(5000));
  }
  EXPECT_EQ(Counted(SpanOutcome::kSent), 5000);
  EXPECT_EQ(collector_.requests(), 3);
}

TEST_F(SpanExporterTest, TriesAgainAfterAnErrorThatPasses) {
  collector_.AnswerNext({.status = 503});
  collector_.AnswerNext({.status = 429, .retry_after = "0"});
  SpanExporter exporter(Options());
  exporter.Add(Made(2));
  EXPECT_TRUE(Becomes(SpanOutcome::kSent, 2));
  EXPECT_EQ(collector_.requests(), 3);
  EXPECT_EQ(Counted(SpanOutcome::kFailed), 0);
}

TEST_F(SpanExporterTest, GivesUpAfterFiveTries) {
  for (int i = 0; i < 5; ++i) collector_.AnswerNext({.status = 503});
  SpanExporter exporter(Options());
  exporter.Add(Made(2));
  EXPECT_TRUE(Becomes(SpanOutcome::kFailed, 2));
  EXPECT_EQ(collector_.requests(), 5);
  exporter.Add(Made(1));
  EXPECT_TRUE(Becomes(SpanOutcome::kSent, 1));
}

TEST_F(SpanExporterTest, DoesNotRepeatARequestThatIsRefused) {
  collector_.AnswerNext({.status = 400});
  SpanExporter exporter(Options());
  exporter.Add(Made(2));
  EXPECT_TRUE(Becomes(SpanOutcome::kFailed, 2));
  EXPECT_EQ(collector_.requests(), 1);
}

TEST_F(SpanExporterTest, CountsRejectedSpansAsFailed) {
  otlp::v1::ExportTraceResponse response;
  response.mutable_partial_success()->set_rejected_spans(1);
  collector_.AnswerNext({.body = response.SerializeAsString()});
  SpanExporter exporter(Options());
  exporter.Add(Made(3));
  EXPECT_TRUE(Becomes(SpanOutcome::kFailed, 1));
  EXPECT_EQ(Counted(SpanOutcome::kSent), 2);
}

TEST_F(SpanExporterTest, CountsWhatFoundNoRoom) {
  SpanExporterOptions options = Options();
  options.buffer_limit = 4;
  SpanExporter exporter(options);
  exporter.Add(Made(10));
  EXPECT_TRUE(Becomes(SpanOutcome::kDropped, 6));
  EXPECT_TRUE(Becomes(SpanOutcome::kSent, 4));
}

TEST_F(SpanExporterTest, EndsAtOnceWhenTheCollectorIsAway) {
  SpanExporterOptions options = Options();
  {
    const TestCollector away;
    options.url = away.url();
  }
  options.first_wait = absl::Hours(1);
  options.interval = absl::InfiniteDuration();
  {
    SpanExporter exporter(options);
    exporter.Add(Made(5000));
  }
  EXPECT_EQ(Counted(SpanOutcome::kFailed), 5000);
}

TEST_F(SpanExporterTest, GivesUpAtTheEndWhenTheCollectorDoesNotAnswer) {
  RawPort silent;
  SpanExporterOptions options = Options();
  options.url = silent.url();
  int client = -1;
  {
    SpanExporter exporter(options);
    exporter.Add(Made(2));
    client = silent.Accept();
    ASSERT_GE(client, 0);
    exporter.Add(Made(3));
  }
  close(client);
  EXPECT_EQ(Counted(SpanOutcome::kFailed), 5);
  EXPECT_FALSE(silent.HasClient()) << "it was asked again";
}

// An exporter that will not try again during the test after one failed try.
class AwayCollectorTest : public SpanExporterTest {
 protected:
  SpanExporterOptions Options() {
    SpanExporterOptions options = SpanExporterTest::Options();
    options.first_wait = absl::Hours(1);
    options.buffer_limit = 4;
    return options;
  }
  // Fails the try of a first span.
  void FailATry(SpanExporter* exporter) {
    collector_.AnswerNext({.status = 503});
    exporter->Add(Made(1));
    ASSERT_TRUE(WaitUntil([&] { return collector_.requests() == 1; }));
  }
};

TEST_F(AwayCollectorTest, CountsAtOnceWhatWaitsAndWhatIsDropped) {
  std::atomic<size_t> waiting = 0;
  SpanExporterOptions options = Options();
  options.waiting = [&](size_t spans) { waiting = spans; };
  SpanExporter exporter(options);
  FailATry(&exporter);
  EXPECT_EQ(waiting, 0);
  exporter.Add(Made(3));
  EXPECT_EQ(waiting, 3);
  EXPECT_EQ(Counted(SpanOutcome::kDropped), 0);
  exporter.Add(Made(7));
  EXPECT_EQ(waiting, 4);
  EXPECT_EQ(Counted(SpanOutcome::kDropped), 6);
}

TEST_F(AwayCollectorTest, SendsWhatIsBackingOffAtTheEnd) {
  {
    SpanExporter exporter(Options());
    FailATry(&exporter);
    exporter.Add(Made(2));
  }
  EXPECT_EQ(Counted(SpanOutcome::kSent), 3);
  EXPECT_EQ(Counted(SpanOutcome::kFailed), 0);
  EXPECT_EQ(collector_.requests(), 3);
}

TEST_F(AwayCollectorTest, TriesOnlyOnceAtTheEnd) {
  {
    SpanExporter exporter(Options());
    FailATry(&exporter);
    collector_.AnswerNext({.status = 503});
  }
  EXPECT_EQ(Counted(SpanOutcome::kFailed), 1);
  EXPECT_EQ(collector_.requests(), 2);
}

TEST_F(AwayCollectorTest, LogsHowManyAreDropped) {
  const auto before = spdlog::default_logger();
  const auto log = std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(16);
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", log));
  {
    SpanExporter exporter(Options());
    FailATry(&exporter);
    exporter.Add(Made(10));
  }
  spdlog::set_default_logger(before);
  EXPECT_THAT(log->last_formatted(),
              ::testing::Contains(
                  ::testing::AllOf(::testing::HasSubstr("spans were dropped"),
                                   ::testing::HasSubstr("spans=6 limit=4"))));
}

TEST(WaitBeforeTryTest, DoublesUpToHalfAMinute) {
  const absl::Duration first = absl::Seconds(1);
  EXPECT_EQ(WaitBeforeTry(1, first, std::nullopt), absl::Seconds(1));
  EXPECT_EQ(WaitBeforeTry(2, first, std::nullopt), absl::Seconds(2));
  EXPECT_EQ(WaitBeforeTry(4, first, std::nullopt), absl::Seconds(8));
  EXPECT_EQ(WaitBeforeTry(50, first, std::nullopt), absl::Seconds(30));
}

TEST(WaitBeforeTryTest, WaitsAtLeastAsBeforeTheSecondTry) {
  EXPECT_EQ(WaitBeforeTry(3, absl::Seconds(2), absl::ZeroDuration()),
            absl::Seconds(2));
}

TEST(WaitBeforeTryTest, DoesWhatTheCollectorAsksFor) {
  EXPECT_EQ(WaitBeforeTry(1, absl::Seconds(1), absl::Seconds(40)),
            absl::Seconds(40));
}

}  // namespace
}  // namespace gpupool::server
