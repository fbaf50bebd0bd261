#include "engine/model/default_training.h"

namespace gpupool::engine {

v1::TrainingSpec DefaultTraining(const ModelGraph& forward, int64_t batch,
                                 v1::Precision precision) {
  v1::TrainingSpec training;
  training.set_batch_size(static_cast<uint32_t>(batch));
  training.set_precision(precision);
  training.mutable_sgd()->set_learning_rate(0.01);
  training.mutable_sgd()->set_momentum(0.9);
  const bool rows = forward.graph.value(forward.output).shape.rank() == 2;
  if (rows) training.mutable_cross_entropy();
  if (!rows) training.mutable_mean_squared_error();
  return training;
}

}  // namespace gpupool::engine
