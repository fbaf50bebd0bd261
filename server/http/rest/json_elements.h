// Private to server/http: the elements of a tensor in JSON, which the REST form
// of the open inference protocol has in "data": one list, or lists in lists in
// the shape of the tensor.
//
// Elements are kept in 9 bytes each until the tensor's data type is known,
// because "data" may come before "datatype". The first fault is kept, and later
// elements are left out; Pack reports it.
//
// Thread-safety: one thread. Ownership: owns the elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace gpupool::server {

// Limit of lists in lists.
inline constexpr size_t kDeepestData = 32;

class JsonElements {
 public:
  // A tensor as the request declares it.
  struct Tensor {
    absl::string_view name;
    absl::string_view datatype;
    absl::Span<const int64_t> shape;
  };

  // Begins and ends a list. The first Open begins "data" itself.
  void Open();
  void Close();

  void AddBool(bool value);
  void AddNegative(int64_t value);  // below 0, or -0
  void AddUnsigned(uint64_t value);
  void AddFloat(double value);
  void AddText(absl::string_view value);
  // Notes an element that no tensor has; `what` is "null" or "an object".
  void AddOther(absl::string_view what);

  size_t size() const { return kinds_.size(); }

  // Returns the elements in the layout of raw_input_contents. Elements of FP32
  // and FP64 may also be "NaN", "Infinity" and "-Infinity". InvalidArgument
  // names the tensor and, for an element, its index in row-major order, its
  // value and the limits:
  //   * an element does not fit the data type
  //   * their number is not that of the shape, or lists in lists have another
  //     shape
  //   * the data type is unknown, or is FP16 or BF16, which JSON does not have
  absl::StatusOr<std::string> Pack(const Tensor& tensor) const;
  // Returns whether Pack fails whatever the tensor is.
  bool has_fault() const { return !fault_.empty(); }

 private:
  enum class Kind : uint8_t { kBool, kNegative, kUnsigned, kFloat, kText };

  bool Add(Kind kind, uint64_t bits);
  void Fail(std::string fault);

  absl::Status CheckShape(const Tensor& tensor) const;
  absl::Status Misfit(const Tensor& tensor, size_t index,
                      absl::string_view takes) const;
  std::string TextOf(size_t index) const;
  absl::string_view StringAt(size_t index) const;
  bool ReadDouble(size_t index, double* value) const;

  absl::Status PackBools(const Tensor& tensor, std::string* out) const;
  template <typename Integer>
  absl::Status PackIntegers(const Tensor& tensor, std::string* out) const;
  template <typename Integer>
  bool ReadInteger(size_t index, Integer* value) const;
  absl::Status PackFloats(const Tensor& tensor, std::string* out) const;
  absl::Status PackDoubles(const Tensor& tensor, std::string* out) const;
  absl::Status PackTexts(const Tensor& tensor, std::string* out) const;

  std::string fault_;  // of the form; empty while there is none
  // Elements of the open lists, outermost first.
  std::vector<int64_t> counts_;
  // Elements of the lists of each depth; -1 before the first has ended.
  std::vector<int64_t> sizes_;
  // Depth of the lists that have elements; 0 before the first element.
  size_t leaf_depth_ = 0;

  std::vector<Kind> kinds_;
  std::vector<uint64_t> bits_;  // of a text: its offset in texts_
  std::string texts_;           // each with its length in 4 bytes before it
};

}  // namespace gpupool::server
