#include "server/serving/ensemble_binding.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "server/serving/tensor/data_type.h"

namespace gpupool::server {
namespace {

using engine::Refuse;

constexpr int kNotFound = -1;

int Find(absl::Span<const TensorFormat> formats, absl::string_view name) {
  for (size_t i = 0; i < formats.size(); ++i) {
    if (formats[i].name == name) return static_cast<int>(i);
  }
  return kNotFound;
}

// -1 fits every size.
bool ShapesFit(absl::Span<const int64_t> a, absl::Span<const int64_t> b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(),
      [](int64_t x, int64_t y) { return x == y || x == -1 || y == -1; });
}

std::string FormatText(const TensorFormat& format) {
  return absl::StrCat(DataTypeName(format.data_type), " of shape ",
                      ShapeText(format));
}

class Binder {
 public:
  Binder(const EnsembleSpec& spec, std::shared_ptr<const EnsembleGraph> graph,
         absl::Span<const VersionHandle> versions)
      : spec_(spec), versions_(versions), places_(graph->tensors.size()) {
    binding_.graph = std::move(graph);
  }

  absl::StatusOr<EnsembleBinding> Bind() {
    for (size_t i = 0; i < versions_.size(); ++i) {
      RETURN_IF_ERROR(BindStep(i));
    }
    RETURN_IF_ERROR(CheckBatches());
    for (size_t i = 0; i < versions_.size(); ++i) {
      RETURN_IF_ERROR(CheckInputsOf(i));
    }
    RETURN_IF_ERROR(FillFacts());
    return std::move(binding_);
  }

 private:
  // Where a tensor was seen first: given by a step or, for an input of the
  // ensemble, read by one.
  struct Place {
    const TensorFormat* format = nullptr;
    size_t step = 0;
  };

  const EnsembleGraph& graph() const { return *binding_.graph; }
  const VersionFacts& facts(size_t step) const {
    return versions_[step]->facts();
  }
  Place& PlaceOf(int tensor) { return places_[static_cast<size_t>(tensor)]; }

  absl::Status BindStep(size_t index) {
    const VersionFacts& of = facts(index);
    BoundStep step;
    step.version = versions_[index];
    step.text = absl::StrCat("step ", index + 1, " (model ", of.label, ")");
    if (versions_[index]->ensemble() != nullptr) {
      return Refuse(step.text,
                    " is an ensemble itself; write its steps in its place");
    }
    if (of.decoupled) {
      return Refuse(step.text,
                    " is decoupled, and a step has one response; take the "
                    "step out of the ensemble");
    }
    if (of.texts != nullptr) {
      return Refuse(step.text,
                    " is a model of texts; let the client send its answer to "
                    "the other steps");
    }
    if (!of.dimensions.empty()) {
      return Refuse(step.text,
                    " has dimensions of several sizes; a step has one size "
                    "of each dimension but the batch");
    }
    step.inputs.assign(of.inputs.size(), kNotFound);
    step.outputs.assign(of.outputs.size(), kNotFound);
    const EnsembleGraph::Step& uses = graph().steps[index];
    for (const EnsembleGraph::Use& use : uses.inputs) {
      const int place = Find(of.inputs, use.name);
      if (place == kNotFound) {
        return Refuse(step.text, " has no input ", NameText(use.name));
      }
      step.inputs[static_cast<size_t>(place)] = use.tensor;
    }
    for (size_t i = 0; i < of.inputs.size(); ++i) {
      if (step.inputs[i] != kNotFound) continue;
      return Refuse(step.text, " needs input ", NameText(of.inputs[i].name),
                    "; name a tensor for it in input_map");
    }
    for (const EnsembleGraph::Use& use : uses.outputs) {
      const int place = Find(of.outputs, use.name);
      if (place == kNotFound) {
        return Refuse(step.text, " has no output ", NameText(use.name));
      }
      step.outputs[static_cast<size_t>(place)] = use.tensor;
      PlaceOf(use.tensor) = {&of.outputs[static_cast<size_t>(place)], index};
      binding_.row_bytes += of.outputs[static_cast<size_t>(place)].row_bytes;
    }
    binding_.steps.push_back(std::move(step));
    return absl::OkStatus();
  }

  // Compares each input with what is given to it.
  absl::Status CheckInputsOf(size_t index) {
    const BoundStep& step = binding_.steps[index];
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const TensorFormat& input = facts(index).inputs[i];
      Place& given = PlaceOf(step.inputs[i]);
      if (given.format == nullptr) {
        given = {&input, index};
        continue;
      }
      if (given.format->data_type == input.data_type &&
          ShapesFit(given.format->DeclaredShape(), input.DeclaredShape())) {
        continue;
      }
      const EnsembleGraph::Tensor& tensor =
          graph().tensors[static_cast<size_t>(step.inputs[i])];
      const bool made = tensor.producer != EnsembleGraph::kNoStep;
      return Refuse("tensor ", NameText(tensor.name), " is ",
                    FormatText(*given.format), made ? " from " : " for ",
                    binding_.steps[given.step].text, ", but ",
                    FormatText(input), " for ", step.text);
    }
    return absl::OkStatus();
  }

  absl::Status CheckBatches() {
    const bool batched = facts(0).batched;
    uint32_t most = std::numeric_limits<uint32_t>::max();
    for (size_t i = 0; i < versions_.size(); ++i) {
      if (facts(i).batched != batched) {
        return Refuse(binding_.steps[batched ? i : 0].text,
                      " has no batch dimension, but ",
                      binding_.steps[batched ? 0 : i].text,
                      " has one; all steps have one or none");
      }
      most = std::min(most, facts(i).max_batch_size);
      if (facts(i).max_batch_size >= spec_.max_batch_size || !batched) continue;
      return Refuse("max_batch_size is ", spec_.max_batch_size, ", but ",
                    binding_.steps[i].text, " takes at most ",
                    facts(i).max_batch_size, " rows");
    }
    if (!batched && spec_.max_batch_size > 0) {
      return Refuse("max_batch_size is ", spec_.max_batch_size, ", but ",
                    binding_.steps[0].text,
                    " has no batch dimension; write max_batch_size: 0 and the "
                    "whole shapes as dims");
    }
    binding_.facts.batched = batched;
    binding_.facts.max_batch_size =
        spec_.max_batch_size > 0 ? spec_.max_batch_size : most;
    return absl::OkStatus();
  }

  // Adds an input or output of the ensemble, which has the format of the step's
  // tensor under its own name.
  absl::Status AddFormat(const char* kind, const EnsembleTensor& declared,
                         const Place& place,
                         std::vector<TensorFormat>* formats) const {
    std::vector<int64_t> dims = declared.dims;
    if (spec_.max_batch_size > 0) dims.insert(dims.begin(), -1);
    if (declared.data_type != place.format->data_type ||
        !ShapesFit(dims, place.format->DeclaredShape())) {
      return Refuse(kind, " ", NameText(declared.name), " is declared as ",
                    DataTypeName(declared.data_type), " of shape ",
                    ShapeText(dims), ", but is ", FormatText(*place.format),
                    " in ", binding_.steps[place.step].text);
    }
    TensorFormat format = *place.format;
    format.name = declared.name;
    formats->push_back(std::move(format));
    return absl::OkStatus();
  }

  absl::Status FillFacts() {
    VersionFacts& of = binding_.facts;
    for (size_t i = 0; i < spec_.inputs.size(); ++i) {
      RETURN_IF_ERROR(
          AddFormat("input", spec_.inputs[i], places_[i], &of.inputs));
    }
    for (size_t i = 0; i < spec_.outputs.size(); ++i) {
      RETURN_IF_ERROR(AddFormat("output", spec_.outputs[i],
                                PlaceOf(graph().outputs[i]), &of.outputs));
    }
    of.model = spec_.model;
    of.version = spec_.version;
    of.label = absl::StrCat("'", spec_.model, "' version ", spec_.version);
    of.max_queue_size = spec_.max_in_flight;
    for (size_t i = 0; i < versions_.size(); ++i) {
      of.takes_sequences = of.takes_sequences || facts(i).takes_sequences;
    }
    return absl::OkStatus();
  }

  const EnsembleSpec& spec_;
  const absl::Span<const VersionHandle> versions_;
  std::vector<Place> places_;  // by tensor
  EnsembleBinding binding_;
};

bool SameLabels(const TensorFormat& x, const TensorFormat& y) {
  if (x.labels == nullptr || y.labels == nullptr) return x.labels == y.labels;
  return *x.labels == *y.labels;
}

bool SameFormats(absl::Span<const TensorFormat> a,
                 absl::Span<const TensorFormat> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const TensorFormat& x, const TensorFormat& y) {
                      return x.name == y.name && x.data_type == y.data_type &&
                             x.row_shape == y.row_shape && SameLabels(x, y) &&
                             x.DeclaredShape() == y.DeclaredShape();
                    });
}

}  // namespace

absl::StatusOr<EnsembleBinding> BindEnsemble(
    const EnsembleSpec& spec, std::shared_ptr<const EnsembleGraph> graph,
    absl::Span<const VersionHandle> versions) {
  return Binder(spec, std::move(graph), versions).Bind();
}

bool TakeTheSame(const VersionFacts& a, const VersionFacts& b) {
  return a.batched == b.batched && a.takes_sequences == b.takes_sequences &&
         a.max_batch_size == b.max_batch_size &&
         SameFormats(a.inputs, b.inputs) && SameFormats(a.outputs, b.outputs);
}

}  // namespace gpupool::server
