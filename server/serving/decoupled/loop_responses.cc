#include "server/serving/decoupled/loop_responses.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace gpupool::server {
namespace {

class LoopResponses : public ResponseSource {
 public:
  LoopResponses(const LoopAnswer& answer, absl::Span<const size_t> stacked,
                uint32_t rows)
      : rows_(rows), stacked_(answer.outputs.size(), false) {
    for (const size_t index : stacked) stacked_[index] = true;
    for (const absl::Span<const std::byte> output : answer.outputs) {
      bytes_.emplace_back(output.begin(), output.end());
    }
    shapes_.assign(answer.shapes.begin(), answer.shapes.end());
    const bool others =
        std::find(stacked_.begin(), stacked_.end(), false) != stacked_.end();
    count_ = rows == 0 && others ? 1 : rows;
  }

  uint32_t count() const override { return count_; }

  SourcedResponse At(uint32_t index) override {
    SourcedResponse response;
    response.shapes = shapes_;
    for (size_t i = 0; i < bytes_.size(); ++i) {
      absl::Span<const std::byte> bytes = bytes_[i];
      if (stacked_[i]) {
        const size_t row = rows_ == 0 ? 0 : bytes.size() / rows_;
        bytes = bytes.subspan(index * row, row);
        response.shapes[i][0] = 1;
        response.has_output.push_back(rows_ > 0);
      } else {
        response.has_output.push_back(index + 1 == count_);
      }
      response.outputs.push_back(bytes);
    }
    return response;
  }

 private:
  const uint32_t rows_;
  std::vector<bool> stacked_;  // by output
  std::vector<std::vector<std::byte>> bytes_;
  std::vector<std::vector<int64_t>> shapes_;
  uint32_t count_ = 0;
};

absl::Status Wrong(size_t output, absl::string_view text) {
  return absl::InternalError(absl::StrCat(
      "the answer of the worker is wrong: output ", output, " ", text));
}

}  // namespace

absl::StatusOr<std::unique_ptr<ResponseSource>> MakeLoopResponses(
    const LoopAnswer& answer, absl::Span<const size_t> stacked) {
  if (answer.outputs.size() != answer.shapes.size()) {
    return absl::InternalError("the answer of the worker has no shapes");
  }
  int64_t rows = -1;
  for (const size_t index : stacked) {
    if (index >= answer.outputs.size()) return Wrong(index, "is missing");
    const std::vector<int64_t>& shape = answer.shapes[index];
    if (shape.empty() || shape[0] < 0 ||
        shape[0] > std::numeric_limits<uint32_t>::max()) {
      return Wrong(index, "has no rows of iterations");
    }
    if (rows >= 0 && shape[0] != rows) {
      return Wrong(index,
                   absl::StrCat("has ", shape[0],
                                " rows of iterations, another one has ", rows));
    }
    rows = shape[0];
    const size_t bytes = answer.outputs[index].size();
    const bool even =
        rows == 0 ? bytes == 0 : bytes % static_cast<uint64_t>(rows) == 0;
    if (!even) {
      return Wrong(index, absl::StrCat("has ", bytes, " bytes for ", rows,
                                       " rows of iterations"));
    }
  }
  std::unique_ptr<ResponseSource> source = std::make_unique<LoopResponses>(
      answer, stacked, static_cast<uint32_t>(std::max<int64_t>(rows, 0)));
  return source;
}

}  // namespace gpupool::server
