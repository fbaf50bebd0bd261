// A test's request: floats in, floats out, and a notification of its end.
#pragma once

#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "server/serving/inference_call.h"
#include "tests/wait_until.h"

namespace gpupool::server {

class TestCall : public InferenceCall {
 public:
  // `values` holds `rows` rows.
  TestCall(uint32_t rows, std::vector<float> values)
      : values_(std::move(values)) {
    inputs.rows = rows;
    inputs.bytes.push_back(
        absl::MakeConstSpan(reinterpret_cast<const std::byte*>(values_.data()),
                            values_.size() * sizeof(float)));
  }

  void OnAnswer(
      const absl::Status& status,
      absl::Span<const absl::Span<const std::byte>> outputs) override {
    status_ = status;
    // The last answer of a decoupled version has no outputs.
    if (status.ok() && !outputs.empty()) {
      output_.resize(outputs[0].size() / sizeof(float));
      std::memcpy(output_.data(), outputs[0].data(), outputs[0].size());
    }
    done_.Notify();  // a second call would crash, so this also checks that
                     // there is only one
  }

  bool WaitUntilDone() {
    return done_.WaitForNotificationWithTimeout(kPatience);
  }
  bool is_done() const { return done_.HasBeenNotified(); }
  const absl::Status& status() const { return status_; }
  const std::vector<float>& output() const { return output_; }

 private:
  std::vector<float> values_;
  absl::Status status_;
  std::vector<float> output_;
  absl::Notification done_;
};

}  // namespace gpupool::server
