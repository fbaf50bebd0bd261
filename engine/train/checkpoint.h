// Checkpoints: a manifest blob that names data blobs. The manifest's digest is
// the name of the checkpoint. A checkpoint exists if its manifest does.
//
// The manifest is a JSON object:
//   format          "gpupool.checkpoint"
//   format_version  1
//   job_id, attempt, step, epoch     numbers; all 0 for uploaded models
//   batch_in_epoch  batches of the epoch that were taken
//   seed            as decimal text, since JSON numbers end at 2^53
//   batch_size      rows of a training batch; 0 for uploaded models
//   input_scaling   whether input.scale and input.shift are weights
//   model           the ModelSpec in protobuf's JSON form
//   evaluation      an EvaluationState; absent before the first evaluation
//   files           [{"role", "sha256", "bytes"}]
// The roles "weights" and "optimizer" are safetensors blobs, with the program's
// names of the tensors (engine/train/checkpoint_tensors.h). "onnx" and
// "onnx/<location>" are the model file and its external files, which `model`
// names as well, and "initial_weights" is the safetensors file that it names.
// Without "weights" these files have them. The same state
// gives the same bytes, hence the same digest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/model/safetensors.h"
#include "engine/train/blob_file.h"
#include "engine/train/evaluation_history.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine {

struct CheckpointFile {
  std::string role;
  std::string sha256;
  uint64_t bytes = 0;
};

struct Manifest {
  uint64_t job_id = 0;
  uint32_t attempt = 0;
  uint64_t step = 0;
  uint64_t epoch = 0;
  uint64_t batch_in_epoch = 0;
  uint64_t seed = 0;
  uint32_t batch_size = 0;
  bool input_scaling = false;
  EvaluationState evaluation;
  v1::ModelSpec model;
  std::vector<CheckpointFile> files;

  // Returns null when there is no such file.
  const CheckpointFile* FindFile(absl::string_view role) const;
};

// Returns the files that the model itself consists of.
std::vector<CheckpointFile> ModelFiles(const v1::ModelSpec& model);
// Returns whether they have its weights.
bool FilesHaveWeights(const v1::ModelSpec& model);

// A tensor in host memory.
struct TensorBytes {
  TensorFacts facts;
  absl::Span<std::byte> bytes;
  // A type to which ReadTensors rounds the file's numbers.
  std::optional<DType> rounded_to = std::nullopt;
};

// Stores the tensors as a safetensors blob and returns its entry for a
// manifest.
absl::StatusOr<CheckpointFile> WriteTensors(
    const std::string& blob_dir, const std::string& role,
    const std::vector<TensorBytes>& tensors);

// Stores the manifest, whose files must already be stored. The returned bytes
// include all files and the manifest.
absl::StatusOr<WrittenBlob> WriteManifest(const std::string& blob_dir,
                                          const Manifest& manifest);

// Reads a manifest. NOT_FOUND, DATA_LOSS, or INVALID_ARGUMENT naming the wrong
// field.
absl::StatusOr<Manifest> ReadManifest(const std::string& blob_dir,
                                      const std::string& sha256);

// Checks that the blob is a safetensors file with exactly these tensors, by
// names, types and shapes, and returns its bytes. Floating numbers may have any
// floating type. INVALID_ARGUMENT names the first difference.
absl::StatusOr<uint64_t> CheckTensors(const std::string& blob_dir,
                                      const std::string& sha256,
                                      const std::vector<TensorFacts>& tensors);

// Fills the tensors' bytes from the file with that role. Converts floating
// numbers of other floating types. On an error the bytes are unchanged.
//   INVALID_ARGUMENT  names, types or shapes differ from the file's, whose
//                     order does not matter; names the first difference
//   NOT_FOUND         the role is absent or the blob is missing
//   DATA_LOSS         the blob's digest differs
absl::Status ReadTensors(const std::string& blob_dir, const Manifest& manifest,
                         const std::string& role,
                         const std::vector<TensorBytes>& tensors);

}  // namespace gpupool::engine
