#include "server/serving/text/text_tfidf.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "server/serving/text/text_cast.h"

namespace gpupool::server {
namespace {

using Options = v1::TextProgram::Tfidf;

absl::Status CheckLengths(const Options& options) {
  if (options.min_length() < 1 || options.max_length() < options.min_length() ||
      options.max_length() > TextTfidf::kMostLength) {
    return engine::Refuse("counts n-grams of ", options.min_length(), " to ",
                          options.max_length(),
                          " elements; the limits are 1 and ",
                          TextTfidf::kMostLength);
  }
  if (options.max_skips() < 0 || options.max_skips() > TextTfidf::kMostSkips) {
    return engine::Refuse("skips ", options.max_skips(),
                          " elements; the limit is ", TextTfidf::kMostSkips);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TextTfidf> TextTfidf::Create(const Options& options) {
  RETURN_IF_ERROR(CheckLengths(options));
  TextTfidf tfidf(options);
  ASSIGN_OR_RETURN(tfidf.pool_, ViewConstant(options.pool()));
  if (tfidf.pool_.kind() == TextKind::kFloat) {
    return engine::Refuse("has a pool of floats; it takes texts or integers");
  }
  for (const int64_t output : options.indexes()) {
    if (output < 0 || static_cast<uint64_t>(output) >= kMostTextElements) {
      return engine::Refuse("has the output ", output, "; outputs are 0 to ",
                            kMostTextElements - 1);
    }
    tfidf.width_ = std::max(tfidf.width_, output + 1);
  }
  if (options.weights_size() > 0 &&
      options.weights_size() != options.indexes_size()) {
    return engine::Refuse("has ", options.weights_size(), " weights for ",
                          options.indexes_size(), " n-grams");
  }
  tfidf.weights_.resize(static_cast<size_t>(tfidf.width_), 1);
  RETURN_IF_ERROR(tfidf.AddGrams());
  return tfidf;
}

// The pool has the n-grams of one element, then those of two, and so on.
absl::Status TextTfidf::AddGrams() {
  for (const absl::string_view text : pool_.texts) {
    text_numbers_.try_emplace(text, static_cast<int64_t>(text_numbers_.size()));
  }
  for (const int64_t number : pool_.integers) {
    integer_numbers_.try_emplace(number,
                                 static_cast<int64_t>(integer_numbers_.size()));
  }
  const auto size = static_cast<int64_t>(pool_.size());
  int gram_index = 0;
  for (int i = 0; i < options_.counts_size(); ++i) {
    const int64_t length = i + 1;
    const int64_t begin = options_.counts(i);
    const int64_t end =
        i + 1 < options_.counts_size() ? options_.counts(i + 1) : size;
    if (begin < 0 || end < begin || end > size || (end - begin) % length != 0) {
      return engine::Refuse("has n-grams of ", length, " elements from ", begin,
                            " to ", end, " of a pool of ", size);
    }
    for (int64_t at = begin; at < end; at += length, ++gram_index) {
      if (gram_index >= options_.indexes_size()) {
        return engine::Refuse("has more n-grams in its pool than the ",
                              options_.indexes_size(), " of ngram_indexes");
      }
      Gram gram;
      for (int64_t j = at; j < at + length; ++j) {
        const auto place = static_cast<size_t>(j);
        gram.push_back(pool_.texts.empty() ? NumberOf(pool_.integers[place])
                                           : NumberOf(pool_.texts[place]));
      }
      const auto output = static_cast<size_t>(options_.indexes(gram_index));
      if (options_.weights_size() > 0) {
        weights_[output] = options_.weights(gram_index);
      }
      outputs_[std::move(gram)] = output;
    }
  }
  return absl::OkStatus();
}

int64_t TextTfidf::NumberOf(absl::string_view text) const {
  const auto found = text_numbers_.find(text);
  return found == text_numbers_.end() ? kUnknown : found->second;
}

int64_t TextTfidf::NumberOf(int64_t number) const {
  const auto found = integer_numbers_.find(number);
  return found == integer_numbers_.end() ? kUnknown : found->second;
}

void TextTfidf::Count(absl::Span<const int64_t> row,
                      absl::Span<int64_t> counts) const {
  const auto size = static_cast<int64_t>(row.size());
  Gram gram;
  for (int64_t skips = 0; skips <= options_.max_skips(); ++skips) {
    for (int64_t start = 0; start < size; ++start) {
      gram.clear();
      for (int64_t at = start; at < size && static_cast<int64_t>(gram.size()) <
                                                options_.max_length();
           at += skips + 1) {
        if (row[static_cast<size_t>(at)] == kUnknown) break;
        gram.push_back(row[static_cast<size_t>(at)]);
        const auto length = static_cast<int64_t>(gram.size());
        if (length < options_.min_length() || (length == 1 && skips > 0)) {
          continue;
        }
        const auto found = outputs_.find(gram);
        if (found != outputs_.end()) ++counts[found->second];
      }
    }
  }
}

double TextTfidf::Weigh(int64_t count, size_t output) const {
  switch (options_.mode()) {
    case Options::IDF:
      return count > 0 ? weights_[output] : 0;
    case Options::TFIDF:
      return static_cast<double>(count) * weights_[output];
    default:
      return static_cast<double>(count);
  }
}

absl::StatusOr<TextTensor> TextTfidf::Run(const TextTensor& tensor,
                                          TextMemory& memory) const {
  const size_t rank = tensor.shape.size();
  if (tensor.kind() != pool_.kind() || rank < 1 || rank > 2) {
    return engine::Refuse("takes ", v1::DataType_Name(pool_.type),
                          " of the shape [C] or [N,C], and got ",
                          v1::DataType_Name(tensor.type), " of [",
                          absl::StrJoin(tensor.shape, ","), "]");
  }
  TextTensor result;
  result.type = v1::FLOAT32;
  result.shape = tensor.shape;
  result.shape.back() = width_;
  ASSIGN_OR_RETURN(const uint64_t elements, TextElements(result.shape));
  RETURN_IF_ERROR(memory.TakeElements(tensor.size() + 2 * elements));
  std::vector<int64_t> numbers;
  for (const absl::string_view text : tensor.texts) {
    numbers.push_back(NumberOf(text));
  }
  for (const int64_t number : tensor.integers) {
    numbers.push_back(NumberOf(number));
  }
  const auto width = static_cast<size_t>(width_);
  const auto columns = static_cast<size_t>(tensor.shape.back());
  const size_t rows = rank == 2 ? static_cast<size_t>(tensor.shape[0]) : 1;
  std::vector<int64_t> counts(elements, 0);
  for (size_t i = 0; i < rows; ++i) {
    Count(absl::MakeConstSpan(numbers).subspan(i * columns, columns),
          absl::MakeSpan(counts).subspan(i * width, width));
  }
  for (size_t i = 0; i < elements; ++i) {
    result.floats.push_back(FitFloat(Weigh(counts[i], i % width), result.type));
  }
  return result;
}

}  // namespace gpupool::server
