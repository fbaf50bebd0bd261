#include "engine/model/layers/layer_checks.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/refuse.h"

namespace gpupool::engine {

std::string ExampleShapeText(const Shape& shape) {
  return absl::StrCat("[", absl::StrJoin(shape.dims().subspan(1), ", "), "]");
}

absl::Status CheckCount(absl::string_view what, int64_t count) {
  if (count >= 1) return absl::OkStatus();
  return Refuse(what, " is ", count, " but must be at least 1");
}

absl::Status CheckImage(const Shape& shape) {
  if (shape.rank() == 4) return absl::OkStatus();
  return Refuse("needs an image [channels, height, width], but its input is ",
                ExampleShapeText(shape));
}

absl::Status CheckTokens(const Shape& shape) {
  if (shape.rank() == 3) return absl::OkStatus();
  return Refuse("needs tokens [tokens, width], but its input is ",
                ExampleShapeText(shape),
                "; image_tokens makes them of an image, embedding of numbers");
}

}  // namespace gpupool::engine
