// LoadedModel: the ServedModel of the engine. Its programs share one set of
// weights and one arena. There are programs for batches of 1, 2, 4, ... up to
// max_batch_size, and rows are padded to the next of these buckets. If rows may
// influence each other, there is a program for each number of rows instead. If
// dimensions vary, there are programs for their sizes, which are made on demand
// and of which a bounded number is kept. A model without a batch dimension in
// all of its inputs and outputs answers one request at a time, and so does one
// that runs in stages because its execution depends on computed values.
//
// Threads and lifetime: as ServedModel.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/runtime/executor.h"
#include "engine/served_model.h"
#include "engine/serving/inference_programs.h"
#include "engine/serving/program_cache.h"
#include "engine/train/checkpoint.h"
#include "engine/train/device_context.h"
#include "engine/train/step_profile.h"

namespace gpupool::engine {

class LoadedModel final : public ServedModel {
 public:
  // Plans and loads a version; a model of texts becomes a LoadedText. Errors as
  // Session::LoadModel.
  static absl::StatusOr<std::unique_ptr<ServedModel>> Create(
      const DeviceContext& device, const LoadRequest& request);
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  const std::vector<v1::TensorSpec>& inputs() const override { return inputs_; }
  const std::vector<v1::TensorSpec>& outputs() const override {
    return outputs_;
  }
  const std::vector<std::string>& dimensions() const override { return names_; }
  uint64_t measured_bytes() const override { return holder_.peak_bytes(); }
  absl::Status Infer(const InferenceBatch& batch,
                     InferenceAnswer* answer) override;
  // The times are those of the host's clock, which waits after each node.
  absl::Status StartProfile(uint32_t requests, uint32_t rows) override;
  absl::Status ProfileRequest() override;
  absl::StatusOr<StoredProfile> TakeProfile() override;

 private:
  // A profile of one program, which is in the cache as long as nothing was
  // evicted.
  struct Profiled {
    Executor* executor = nullptr;
    uint64_t evictions = 0;
    std::vector<std::vector<std::byte>> inputs;  // in the order of planned_
    std::unique_ptr<StepProfile> profile;
  };

  LoadedModel(const DeviceContext& device, const LoadRequest& request);
  absl::Status Plan(const ModelSource& source);
  absl::Status LoadPrograms(const ModelSource& source);
  // Sets the weights of the checkpoint, or else those of the model file.
  absl::Status SetWeights(const ModelSource& source);
  absl::Status CheckBatch(const InferenceBatch& batch) const;
  absl::Status CheckSizes(const InferenceBatch& batch) const;
  // Bytes of the batch that the program reads and writes.
  using HostInputs = absl::InlinedVector<HostInput, 4>;
  using HostOutputs = absl::InlinedVector<HostOutput, 4>;
  HostInputs InputsOf(const InferenceBatch& batch,
                      const ProgramCache::Entry& entry) const;
  absl::StatusOr<HostOutputs> OutputsOf(const InferenceBatch& batch,
                                        const ProgramCache::Entry& entry,
                                        InferenceAnswer* answer) const;
  // Returns the bytes of one row for these sizes. INVALID_ARGUMENT when a size
  // that follows from them is negative.
  absl::StatusOr<uint64_t> RowBytes(const ServedPort& port,
                                    absl::Span<const int64_t> sizes) const;
  // Returns the smallest batch of a program that holds the rows.
  int64_t BatchFor(uint32_t rows) const;
  ProgramKey KeyOf(const InferenceBatch& batch) const;
  absl::Status CheckProfile(uint32_t rows) const;
  absl::Status CheckProfiled() const;
  absl::StatusOr<ProgramCache::Entry*> FindOrMake(const ProgramKey& key,
                                                  InferenceAnswer* answer);
  absl::StatusOr<ProgramCache::Entry*> Insert(InferenceProgram program);
  // Runs one stage after the other.
  absl::Status InferInStages(const InferenceBatch& batch,
                             InferenceAnswer* answer);
  // Opens the model's file, unless it is open for this request.
  absl::StatusOr<std::shared_ptr<const ModelSource>> OpenSource() const;
  // Removes the oldest programs until this one's residents fit the limit.
  void MakeRoomFor(const Program& program);

  const DeviceContext device_;
  const LoadRequest request_;
  MemoryHolder holder_;
  uint64_t limit_bytes_ = 0;  // the holder's; 0: none
  Manifest manifest_;
  InferenceOptions options_;
  // The plan without its programs, which are in the cache.
  InferencePrograms planned_;
  ServedSizes served_;
  std::vector<std::string> names_;  // names of its dimensions
  std::vector<v1::TensorSpec> inputs_;
  std::vector<v1::TensorSpec> outputs_;
  std::optional<WeightStore> weights_;
  uint64_t arena_bytes_ = 0;
  uint64_t outside_bytes_ = 0;  // planned beside the arena
  Allocation arena_;
  // While a request runs in stages: the file, and the bytes that stages pass
  // on.
  std::shared_ptr<const ModelSource> opened_;
  uint64_t passed_bytes_ = 0;
  std::optional<ProgramCache> cache_;
  std::optional<Profiled> profiled_;
};

}  // namespace gpupool::engine
