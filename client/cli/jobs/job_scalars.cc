#include "client/cli/jobs/job_scalars.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/cli/output/job_view.h"

namespace gpupool::client {

std::optional<ScalarEvent> JobScalars::Take(const v1::JobEvent& event) {
  ScalarEvent taken;
  if (event.has_progress() && event.progress().step() > 0) {
    TakeProgress(event.progress(), taken);
  } else if (event.has_evaluation()) {
    TakeEvaluation(event.evaluation(), taken);
  } else {
    return std::nullopt;
  }
  taken.time = ToTime(event.time());
  taken.rewinds = event.attempt() != attempt_ && taken.step <= last_step_;
  attempt_ = event.attempt();
  last_step_ = taken.rewinds ? taken.step : std::max(last_step_, taken.step);
  count_ += taken.values.size();
  for (const auto& [curve, value] : taken.values) curves_.insert(curve);
  return taken;
}

void JobScalars::TakeProgress(const v1::Progress& progress,
                              ScalarEvent& taken) {
  taken.step = progress.step();
  taken.values = {{"loss/training", progress.loss()},
                  {"progress/epoch", progress.epoch()}};
  if (progress.has_samples_per_second()) {
    taken.values.emplace_back("speed/samples_per_second",
                              progress.samples_per_second());
  }
  if (progress.has_learning_rate()) {
    taken.values.emplace_back("progress/learning_rate",
                              progress.learning_rate());
  }
  if (progress.loss_scale() > 0) {
    taken.values.emplace_back("fp16/loss_scale", progress.loss_scale());
    taken.values.emplace_back("fp16/skipped_steps",
                              static_cast<double>(progress.skipped_steps()));
  }
}

void JobScalars::TakeEvaluation(const v1::Evaluation& evaluation,
                                ScalarEvent& taken) {
  taken.step = evaluation.step();
  taken.values = {{"loss/held_out", evaluation.loss()}};
  if (evaluation.has_accuracy()) {
    taken.values.emplace_back("held_out/accuracy", evaluation.accuracy());
  }
  if (evaluation.has_top_k_accuracy()) {
    taken.values.emplace_back("held_out/top_k_accuracy",
                              evaluation.top_k_accuracy());
  }
  const size_t metrics = taken.values.size();
  for (const auto& [name, value] : evaluation.metrics()) {
    taken.values.emplace_back(absl::StrCat("held_out/", name), value);
  }
  // The map has no order.
  std::sort(taken.values.begin() + static_cast<std::ptrdiff_t>(metrics),
            taken.values.end());
}

}  // namespace gpupool::client
