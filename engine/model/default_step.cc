#include "engine/model/default_step.h"

#include "engine/base/status_macros.h"
#include "engine/model/model_programs.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {

absl::StatusOr<ModelGraph> BuildDefaultStep(const ModelSource& model,
                                            int64_t batch,
                                            v1::Precision precision) {
  ASSIGN_OR_RETURN(const ModelGraph forward, model.Build({.batch = batch}));
  v1::TrainingSpec training;
  training.set_batch_size(static_cast<uint32_t>(batch));
  training.set_precision(precision);
  training.mutable_sgd()->set_learning_rate(0.01);
  training.mutable_sgd()->set_momentum(0.9);
  const bool rows = forward.graph.value(forward.output).shape.rank() == 2;
  if (rows) training.mutable_cross_entropy();
  if (!rows) training.mutable_mean_squared_error();
  return BuildTrainingGraph(model, {}, training);
}

}  // namespace gpupool::engine
