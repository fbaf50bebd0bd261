// The spans of one inference request, of either rpc: the request itself, and
// its stages as children: check, queue, copy-in, compute, answer. A request to
// an ensemble has check, and a child for each step with stages of its own.
//
// Thread-safety: one thread at a time. The tracer must outlive it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/serving/inference_call.h"
#include "server/serving/model_registry.h"
#include "server/trace/tracer.h"

namespace gpupool::server {

// Names of the spans, which are the rpcs' paths without the first slash.
inline constexpr absl::string_view kInferSpan =
    "inference.GRPCInferenceService/ModelInfer";
inline constexpr absl::string_view kStreamInferSpan =
    "inference.GRPCInferenceService/ModelStreamInfer";

class RequestTrace {
 public:
  // Returns null when the request is not traced; `tracer` may be null. `name`
  // is one of the above.
  static std::unique_ptr<RequestTrace> Begin(Tracer* tracer,
                                             const TraceHeaders& headers,
                                             absl::string_view name);

  // The stages and steps, which the executor fills in.
  StageTimes* stages() { return &stages_; }
  std::vector<StepTimes>* steps() { return &steps_; }

  // Facts about the request that are known at its end.
  struct Facts {
    absl::string_view id;                    // the client's; may be empty
    absl::string_view model;                 // as requested
    const ServedVersion* version = nullptr;  // null: none was found
    uint32_t rows = 0;
    std::optional<uint32_t> responses;  // of a decoupled version
  };
  // Hands the spans to the tracer. Call it once, when the answer is complete.
  void End(const absl::Status& status, const Facts& facts);

 private:
  RequestTrace(Tracer* tracer, OpenSpan open, absl::string_view name);

  Span Root(const absl::Status& status, const Facts& facts,
            absl::Time now) const;
  // Times of the request or a step, and when its last stage ended.
  struct Reached {
    const OpenSpan& open;  // parent of the stages
    const StageTimes& stages;
    absl::Time end;
  };
  void AddCheck(absl::Time now, std::vector<Span>* spans);
  void AddStages(const Reached& reached, std::vector<Span>* spans);
  void AddStep(const StepTimes& step, std::vector<Span>* spans);
  Span Compute(const OpenSpan& open, const StageTimes& stages);
  Span Stage(const OpenSpan& open, absl::string_view name, Interval time) {
    return ChildOf(open, tracer_->NewSpan(), name, time);
  }

  Tracer* const tracer_;
  const OpenSpan open_;
  const absl::string_view name_;
  const absl::Time begin_;
  StageTimes stages_;
  std::vector<StepTimes> steps_;  // of an ensemble
};

}  // namespace gpupool::server
