#include "engine/train/checkpoint_copy.h"

#include <google/protobuf/util/time_util.h>

#include "engine/base/status_macros.h"
#include "engine/train/checkpoint_tensors.h"

namespace gpupool::engine {
namespace {

// Returns whether every float32 element is finite: its exponent is not all
// ones. The loop has no branch, so the compiler can vectorize it.
bool AllFinite(const TensorBytes& tensor) {
  if (tensor.facts.dtype != DType::kFloat32) return true;
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t bad = 0;
  const absl::Span<const uint32_t> elements(
      reinterpret_cast<const uint32_t*>(tensor.bytes.data()),
      tensor.bytes.size() / sizeof(uint32_t));
  for (uint32_t bits : elements) {
    bad |= static_cast<uint32_t>((bits & kExponent) == kExponent);
  }
  return bad == 0;
}

}  // namespace

CheckpointCopy::CheckpointCopy(std::string blob_dir, Manifest manifest,
                               WeightView weights)
    : blob_dir_(std::move(blob_dir)),
      manifest_(std::move(manifest)),
      weights_(std::move(weights)),
      model_(ModelTensors(weights_)),
      optimizer_(OptimizerTensors(weights_)) {}

std::string CheckpointCopy::FirstNotFinite() const {
  for (const auto* tensors : {&model_, &optimizer_}) {
    for (const TensorBytes& tensor : *tensors) {
      if (!AllFinite(tensor)) return tensor.facts.name;
    }
  }
  return "";
}

absl::StatusOr<v1::Checkpoint> CheckpointCopy::Write() const {
  Manifest manifest = manifest_;
  ASSIGN_OR_RETURN(CheckpointFile model,
                   WriteTensors(blob_dir_, "weights", model_));
  manifest.files.push_back(std::move(model));
  if (!optimizer_.empty()) {
    ASSIGN_OR_RETURN(CheckpointFile file,
                     WriteTensors(blob_dir_, "optimizer", optimizer_));
    manifest.files.push_back(std::move(file));
  }
  // The manifest comes last: it makes the checkpoint exist.
  ASSIGN_OR_RETURN(const WrittenBlob written,
                   WriteManifest(blob_dir_, manifest));
  v1::Checkpoint checkpoint;
  checkpoint.set_job_id(manifest.job_id);
  checkpoint.set_attempt(manifest.attempt);
  checkpoint.set_step(manifest.step);
  checkpoint.set_manifest_sha256(written.sha256);
  checkpoint.set_bytes(written.bytes);
  const EvaluationState& evaluated = manifest.evaluation;
  // An evaluation of an earlier step says nothing about these weights.
  if (evaluated.step == manifest.step && evaluated.loss.has_value()) {
    checkpoint.set_held_out_loss(*evaluated.loss);
  }
  *checkpoint.mutable_time() =
      google::protobuf::util::TimeUtil::GetCurrentTime();
  return checkpoint;
}

}  // namespace gpupool::engine
