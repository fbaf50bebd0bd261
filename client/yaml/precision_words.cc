#include "client/yaml/precision_words.h"

#include <array>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/text/quote.h"
#include "client/text/suggest.h"

namespace gpupool::client {
namespace {

struct Word {
  absl::string_view word;
  v1::Precision precision;
};
constexpr std::array kWords = {
    Word{"highest", v1::HIGHEST}, Word{"high", v1::HIGH},
    Word{"bf16", v1::BF16},       Word{"fp16", v1::FP16},
    Word{"float32", v1::HIGHEST}, Word{"fp32", v1::HIGHEST},
    Word{"tf32", v1::HIGH},       Word{"bfloat16", v1::BF16},
    Word{"float16", v1::FP16},    Word{"half", v1::FP16},
};

}  // namespace

absl::StatusOr<v1::Precision> ParsePrecision(absl::string_view word) {
  std::vector<std::string> words;
  for (const Word& known : kWords) {
    if (absl::EqualsIgnoreCase(word, known.word)) return known.precision;
    words.emplace_back(known.word);
  }
  // torch.set_float32_matmul_precision takes this word. No precision here is
  // the same.
  if (absl::EqualsIgnoreCase(word, "medium")) {
    return absl::InvalidArgumentError(absl::StrCat(
        Quoted(word),
        ", PyTorch's word for products of float32 in bfloat16, is not a "
        "precision here: write bf16, which also keeps the values between "
        "products in bfloat16, or high or highest, which mean the same as in "
        "PyTorch"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(Quoted(word), " is not one of highest, high, bf16, fp16, ",
                   "which a precision needs", DidYouMean(word, words)));
}

std::string ArithmeticWord(v1::Precision precision) {
  switch (precision) {
    case v1::HIGH:
      return "tf32";
    case v1::BF16:
      return "bfloat16";
    case v1::FP16:
      return "float16";
    default:
      return "float32";
  }
}

}  // namespace gpupool::client
