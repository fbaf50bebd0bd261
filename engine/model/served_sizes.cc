#include "engine/model/served_sizes.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine {
namespace {

template <typename... Parts>
absl::Status RefuseDimension(const std::string& name, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(
      "dimension '", name, "' ", parts..., " (--dimension ", name, "=SIZES)"));
}

absl::StatusOr<ServedDimension> ReadDimension(const std::string& name,
                                              const v1::DimensionSizes& proto) {
  ServedDimension dimension{
      .name = name,
      .minimum = proto.minimum(),
      .maximum = proto.maximum(),
      .sizes = {proto.sizes().begin(), proto.sizes().end()}};
  if (!dimension.sizes.empty()) {
    if (proto.minimum() != 0 || proto.maximum() != 0) {
      return RefuseDimension(
          name, "has a range and a list of sizes; give one of them");
    }
    if (proto.sizes_size() > kMaxListedSizes) {
      return RefuseDimension(name, "lists ", proto.sizes_size(),
                             " sizes; at most ", kMaxListedSizes,
                             " can be served, or a range of them");
    }
    for (size_t i = 1; i < dimension.sizes.size(); ++i) {
      if (dimension.sizes[i - 1] < dimension.sizes[i]) continue;
      return RefuseDimension(name, "lists ", dimension.sizes[i], " after ",
                             dimension.sizes[i - 1], "; sizes must rise");
    }
    dimension.minimum = dimension.sizes.front();
    dimension.maximum = dimension.sizes.back();
  }
  if (dimension.minimum < 0 || dimension.maximum < dimension.minimum ||
      dimension.maximum < 1 || dimension.maximum > kMaxServedSize) {
    return RefuseDimension(name, "is served from ", dimension.minimum, " to ",
                           dimension.maximum,
                           "; sizes must rise, from 0 or more to at ",
                           "least 1 and at most ", kMaxServedSize);
  }
  return dimension;
}

// Returns "past=3, sequence=1".
std::string SizesText(const std::vector<std::string>& names,
                      absl::Span<const int64_t> sizes) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", names[i], "=", sizes[i]);
  }
  return text;
}

// Computes a size that must not be negative.
absl::StatusOr<int64_t> SizeOf(const SizeExpression& expression,
                               absl::Span<const int64_t> sizes) {
  const absl::StatusOr<int64_t> size = expression.Value(sizes);
  if (size.ok() && *size >= 0) return size;
  const std::string at = SizesText(expression.names(), sizes);
  return absl::InvalidArgumentError(absl::StrCat(
      "the size '", expression.text(), "' ",
      size.ok() ? absl::StrCat("is ", *size) : "cannot be computed",
      at.empty() ? "" : absl::StrCat(" for ", at),
      size.ok() ? "; no size may be negative" : ": ",
      size.ok() ? "" : size.status().message()));
}

// Returns whether the spec gives this dimension one size or several.
bool HasSizes(const v1::OnnxModel& model, const std::string& name) {
  return model.dimensions().contains(name) ||
         model.served_dimensions().contains(name);
}

// Reads an entry of OnnxModel.derived_dimensions.
absl::StatusOr<SizeExpression> ReadDerived(const v1::OnnxModel& model,
                                           const std::string& name,
                                           const std::string& text) {
  const auto refuse = [&](const auto&... parts) {
    return absl::InvalidArgumentError(
        absl::StrCat("dimension '", name, "' = ", text, ": ", parts...));
  };
  if (name.empty()) return refuse("it has no name");
  if (HasSizes(model, name)) {
    return refuse("it has a size as well; give the size or the expression");
  }
  absl::StatusOr<SizeExpression> expression = SizeExpression::Parse(text);
  if (!expression.ok()) return refuse(expression.status().message());
  for (const std::string& used : expression->names()) {
    if (HasSizes(model, used)) continue;
    if (model.derived_dimensions().contains(used)) {
      return refuse("'", used, "' follows from other dimensions itself; write ",
                    "it out as (", model.derived_dimensions().at(used), ")");
    }
    return refuse("'", used, "' has no size; give one or several with ",
                  "--dimension ", used, "=SIZES");
  }
  return expression;
}

}  // namespace

bool ServedDimension::Takes(int64_t size) const {
  if (sizes.empty()) return size >= minimum && size <= maximum;
  return std::binary_search(sizes.begin(), sizes.end(), size);
}

std::string ServedDimension::Text() const {
  if (sizes.empty()) return absl::StrCat(minimum, " to ", maximum);
  return absl::StrJoin(sizes, ", ");
}

absl::StatusOr<ServedSizes> ReadServedSizes(const v1::OnnxModel& model) {
  ServedSizes served;
  if (model.served_dimensions_size() > kMaxServedDimensions) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the model has ", model.served_dimensions_size(),
        " dimensions of several sizes; at most ", kMaxServedDimensions,
        " can be served: give the others one size"));
  }
  for (const auto& [name, sizes] : model.served_dimensions()) {
    if (name.empty()) return RefuseDimension(name, "has no name");
    if (model.dimensions().contains(name)) {
      return RefuseDimension(name,
                             "has one size and several; give one of them");
    }
    ASSIGN_OR_RETURN(served.dimensions.emplace_back(),
                     ReadDimension(name, sizes));
  }
  // Maps of protobuf have no fixed order.
  std::sort(served.dimensions.begin(), served.dimensions.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  served.padding = {model.padding().begin(), model.padding().end()};
  for (const auto& [name, numbers] : model.bound_inputs()) {
    if (numbers.numbers_size() > static_cast<int>(kMaxBoundBytes)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input '", name, "' is bound to ", numbers.numbers_size(),
          " numbers; the limit is ", kMaxBoundBytes, " bytes"));
    }
    served.bound[name] = {numbers.numbers().begin(), numbers.numbers().end()};
  }
  return served;
}

absl::StatusOr<int64_t> ServedSizes::Size(
    const SizeExpression& expression, absl::Span<const int64_t> sizes) const {
  std::vector<int64_t> used;
  for (const std::string& name : expression.names()) {
    for (size_t i = 0; i < dimensions.size(); ++i) {
      if (dimensions[i].name == name) used.push_back(sizes[i]);
    }
  }
  return SizeOf(expression, used);
}

absl::StatusOr<int64_t> ServedSizes::LargestSize(
    const SizeExpression& expression) const {
  std::vector<SizeRange> used;
  for (const std::string& name : expression.names()) {
    for (const ServedDimension& dimension : dimensions) {
      if (dimension.name != name) continue;
      used.push_back({dimension.minimum, dimension.maximum});
    }
  }
  ASSIGN_OR_RETURN(const SizeRange range, expression.Bounds(used));
  return range.last;
}

absl::Status AddDerivedSizes(const v1::OnnxModel& model,
                             absl::Span<const DeclaredPort> ports,
                             ServedSizes& served) {
  if (model.derived_dimensions_size() > kMaxDerivedDimensions) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model has ", model.derived_dimensions_size(),
                     " dimensions that follow from others; the limit is ",
                     kMaxDerivedDimensions));
  }
  const std::map<std::string, int64_t> fixed(model.dimensions().begin(),
                                             model.dimensions().end());
  for (const auto& [name, text] : model.derived_dimensions()) {
    ASSIGN_OR_RETURN(const SizeExpression expression,
                     ReadDerived(model, name, text));
    served.derived.insert({name, expression.With(fixed)});
  }
  for (const DeclaredPort& port : ports) {
    for (size_t axis = 0; axis < port.axes.size(); ++axis) {
      const std::string& name = port.axes[axis];
      if (name.empty() || HasSizes(model, name)) continue;
      auto found = served.derived.find(name);
      if (found == served.derived.end()) {
        const absl::StatusOr<SizeExpression> own = SizeExpression::Parse(name);
        const bool known = own.ok() && !own->IsName() &&
                           std::all_of(own->names().begin(), own->names().end(),
                                       [&](const auto& used) {
                                         return HasSizes(model, used);
                                       });
        if (!known) continue;
        found = served.derived.insert({name, own->With(fixed)}).first;
      }
      served.derived_axes.push_back(
          {port.name, static_cast<int>(axis), found->second});
    }
  }
  return absl::OkStatus();
}

absl::Status AddDerivedTo(const ServedSizes& served,
                          absl::flat_hash_map<std::string, int64_t>& sizes) {
  std::vector<std::pair<std::string, int64_t>> added;
  for (const auto& [name, expression] : served.derived) {
    std::vector<int64_t> used;
    for (const std::string& one : expression.names()) {
      const auto size = sizes.find(one);
      // The caller reports served dimensions that have no size.
      if (size != sizes.end()) used.push_back(size->second);
    }
    if (used.size() < expression.names().size()) continue;
    absl::StatusOr<int64_t> size = SizeOf(expression, used);
    if (!size.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("dimension '", name, "': ", size.status().message()));
    }
    added.push_back({name, *size});
  }
  sizes.insert(added.begin(), added.end());
  return absl::OkStatus();
}

}  // namespace gpupool::engine
