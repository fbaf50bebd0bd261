#include "server/serving/text/text_threads.h"

#include "absl/synchronization/barrier.h"
#include "absl/synchronization/blocking_counter.h"
#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

TEST(TextThreadsTest, WorkRunsOnSeveralThreads) {
  // Each work waits for the last one, so all of them run at a time.
  absl::Barrier* const together =
      new absl::Barrier(static_cast<int>(TextThreads::kThreads));
  absl::BlockingCounter ended(static_cast<int>(TextThreads::kThreads));
  TextThreads threads;
  for (size_t i = 0; i < TextThreads::kThreads; ++i) {
    threads.Post([&] {
      if (together->Block()) delete together;
      ended.DecrementCount();
    });
  }
  ended.Wait();
}

TEST(TextThreadsTest, EndsWithoutWork) { const TextThreads threads; }

}  // namespace
}  // namespace gpupool::server
