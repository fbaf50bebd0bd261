#include "server/serving/text_executor.h"

#include <google/protobuf/text_format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/serving/tensor/bytes_elements.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TextCall : public InferenceCall {
 public:
  explicit TextCall(const std::vector<std::string>& texts) {
    for (const std::string& text : texts) AppendBytesElement(text, &raw_);
    inputs.rows = static_cast<uint32_t>(texts.size());
    inputs.shapes = {{static_cast<int64_t>(texts.size())}};
    inputs.bytes = {absl::MakeConstSpan(
        reinterpret_cast<const std::byte*>(raw_.data()), raw_.size())};
    stages = &times;
  }
  void OnAnswer(
      const absl::Status& answered,
      absl::Span<const absl::Span<const std::byte>> outputs) override {
    status = answered;
    if (answered.ok()) {
      output.assign(reinterpret_cast<const char*>(outputs[0].data()),
                    outputs[0].size());
    }
    done_.Notify();
  }
  bool Await() { return done_.WaitForNotificationWithTimeout(kPatience); }

  absl::Status status;
  std::string output;
  StageTimes times;

 private:
  std::string raw_;
  absl::Notification done_;
};

TensorFormat FormatOf(const std::string& name, v1::DataType type) {
  v1::TensorSpec spec;
  spec.set_name(name);
  spec.set_data_type(type);
  spec.add_shape(-1);
  return *MakeTensorFormat(spec);
}

class TextExecutorTest : public ::testing::Test {
 protected:
  // Makes the executor of a model that reads integers.
  std::shared_ptr<TextExecutor> Make(uint32_t max_queue_size = 8) {
    v1::TextProgram program;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        "nodes { name: \"Cast 'read'\" op: CAST inputs: 0 "
        "output_type: INT64 } outputs: 1",
        &program));
    return std::make_shared<TextExecutor>(
        TextParts{.label = "'words' version 1",
                  .runner = *TextRunner::Create(program, 1),
                  .inputs = {FormatOf("x", v1::STRING)},
                  .outputs = {FormatOf("y", v1::INT64)},
                  .max_batch_size = 4,
                  .max_queue_size = max_queue_size,
                  .threads = &threads_,
                  .observer = nullptr});
  }
  // Keeps the threads busy until the test ends.
  void Pause() {
    for (size_t i = 0; i < TextThreads::kThreads; ++i) {
      threads_.Post([this] { resume_.WaitForNotification(); });
    }
  }

  absl::Notification resume_;
  TextThreads threads_;
};

TEST_F(TextExecutorTest, AnswersAndCountsLikeABatch) {
  const auto executor = Make();
  TextCall call({"7", "-1"});
  executor->Enqueue(&call);
  ASSERT_TRUE(call.Await());
  ASSERT_TRUE(call.status.ok()) << call.status;
  EXPECT_EQ(call.output.size(), 2 * sizeof(int64_t));
  EXPECT_EQ(call.output[0], 7);
  EXPECT_THAT(call.output_shapes, ElementsAre(std::vector<int64_t>()));
  EXPECT_EQ(call.times.batch_rows, 2u);
  const StatisticsSnapshot snapshot = executor->statistics().Snapshot();
  EXPECT_EQ(snapshot.success.count, 1u);
  EXPECT_EQ(snapshot.rows, 2u);
  EXPECT_EQ(snapshot.batches, 1u);
}

TEST_F(TextExecutorTest, AnErrorOfANodeIsTheAnswer) {
  const auto executor = Make();
  TextCall call({"cat"});
  executor->Enqueue(&call);
  ASSERT_TRUE(call.Await());
  EXPECT_TRUE(absl::IsInvalidArgument(call.status)) << call.status;
  EXPECT_THAT(std::string(call.status.message()),
              HasSubstr("Cast 'read': cannot read 'cat'"));
  EXPECT_EQ(executor->statistics().Snapshot().fail.count, 1u);
}

TEST_F(TextExecutorTest, WhatWaitsIsBoundedCancelledAndClosed) {
  const auto executor = Make(2);
  Pause();
  TextCall first({"1"}), second({"2"}), third({"3"}), late({"4"});
  executor->Enqueue(&first);
  executor->Enqueue(&second);
  executor->Enqueue(&third);
  ASSERT_TRUE(third.Await());
  EXPECT_TRUE(absl::IsUnavailable(third.status)) << third.status;
  EXPECT_THAT(std::string(third.status.message()),
              HasSubstr("maximum queue size of 2"));
  executor->Cancel(&first);
  EXPECT_TRUE(absl::IsCancelled(first.status));
  executor->Close(absl::UnavailableError("closed"));
  EXPECT_EQ(second.status.message(), "closed");
  executor->Enqueue(&late);
  EXPECT_EQ(late.status.message(), "closed");
  resume_.Notify();
}

TEST_F(TextExecutorTest, ACallWhoseTimeIsOverIsNotComputed) {
  const auto executor = Make();
  TextCall late({"1"}), hurried({"2"});
  late.deadline = absl::InfinitePast();
  hurried.queue_deadline = absl::InfinitePast();
  executor->Enqueue(&late);
  executor->Enqueue(&hurried);
  ASSERT_TRUE(late.Await());
  ASSERT_TRUE(hurried.Await());
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.status)) << late.status;
  EXPECT_TRUE(absl::IsUnavailable(hurried.status)) << hurried.status;
}

}  // namespace
}  // namespace gpupool::server
