// The list of segments in a memory snapshot, in the form that every version of
// PyTorch's command line viewer reads.
//
// Thread-safety: none. A reader owns the text of the list, and nothing else of
// the dump.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpupool::client {

// The most bytes of a list that are kept: those of about two million blocks.
inline constexpr size_t kMaxSegmentsBytes = size_t{256} << 20;

struct SegmentList {
  std::string pickle;
  // Whether the list was longer than the limit. Then the pickle has only its
  // first segments.
  bool is_cut = false;
  uint64_t segments = 0;  // number of segments in the pickle
};

// Takes the value of "segments" out of the pickle of a dictionary, which comes
// in parts. The pickle must have the opcodes of engine/memory/pickle_writer.h.
class SegmentsReader {
 public:
  explicit SegmentsReader(size_t max_bytes = kMaxSegmentsBytes)
      : max_bytes_(max_bytes) {}

  // Reads the next part. Returns whether more parts are needed.
  bool Append(absl::string_view part);
  // Returns the list as a pickle of its own. Call it once, after the last part.
  // DATA_LOSS if the pickle is damaged or has no such list.
  absl::StatusOr<SegmentList> Finish();

 private:
  enum class State { kBegin, kList, kComplete, kCut, kDamaged };

  // Reads all operations that are complete so far.
  void Read();

  const size_t max_bytes_;
  State state_ = State::kBegin;
  std::string text_;         // the list, without what stands before it
  size_t at_ = 0;            // end of the operations that were read
  size_t open_ = 0;          // marks without their end
  size_t segments_end_ = 0;  // end of the last whole segment
  uint64_t segments_ = 0;
  uint64_t bytes_ = 0;  // of all parts
};

}  // namespace gpupool::client
