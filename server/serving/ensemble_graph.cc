#include "server/serving/ensemble_graph.h"

#include <algorithm>
#include <map>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"

namespace gpupool::server {
namespace {

using engine::Refuse;

class GraphMaker {
 public:
  explicit GraphMaker(const EnsembleSpec& spec) : spec_(spec) {}

  absl::StatusOr<EnsembleGraph> Make() {
    RETURN_IF_ERROR(CheckCounts());
    graph_.steps.resize(spec_.steps.size());
    for (const EnsembleTensor& input : spec_.inputs) {
      RETURN_IF_ERROR(AddTensor(input.name, EnsembleGraph::kNoStep).status());
    }
    for (size_t i = 0; i < spec_.steps.size(); ++i) {
      RETURN_IF_ERROR(AddOutputsOf(i));
    }
    for (size_t i = 0; i < spec_.steps.size(); ++i) {
      RETURN_IF_ERROR(AddInputsOf(i));
    }
    RETURN_IF_ERROR(AddOutputs());
    RETURN_IF_ERROR(CheckInputsAreRead());
    RETURN_IF_ERROR(CheckOrder());
    return std::move(graph_);
  }

 private:
  std::string Text(int step) const {
    return StepText(spec_, static_cast<size_t>(step));
  }

  absl::Status CheckCounts() const {
    if (spec_.steps.empty() || spec_.steps.size() > kMaxEnsembleSteps) {
      return Refuse("it has ", spec_.steps.size(), " steps; write 1 .. ",
                    kMaxEnsembleSteps);
    }
    if (spec_.inputs.empty() || spec_.outputs.empty()) {
      return Refuse("it has ", spec_.inputs.size(), " inputs and ",
                    spec_.outputs.size(),
                    " outputs; list every input and output of the ensemble");
    }
    size_t tensors = spec_.inputs.size();
    for (const EnsembleStep& step : spec_.steps) {
      tensors += step.outputs.size();
    }
    if (tensors <= kMaxEnsembleTensors) return absl::OkStatus();
    return Refuse("it has ", tensors, " tensors, the limit is ",
                  kMaxEnsembleTensors);
  }

  // Returns who gives the tensor: "an input of the ensemble" or a step.
  std::string Giver(int producer) const {
    return producer == EnsembleGraph::kNoStep ? "an input of the ensemble"
                                              : Text(producer);
  }

  absl::StatusOr<int> AddTensor(const std::string& name, int producer) {
    const auto [place, is_new] =
        tensors_.emplace(name, static_cast<int>(graph_.tensors.size()));
    if (!is_new) {
      const int first =
          graph_.tensors[static_cast<size_t>(place->second)].producer;
      return Refuse("tensor ", NameText(name), " is given twice: by ",
                    Giver(first), " and by ", Giver(producer),
                    "; give every tensor a name of its own");
    }
    EnsembleGraph::Tensor tensor;
    tensor.name = name;
    tensor.producer = producer;
    graph_.tensors.push_back(std::move(tensor));
    return place->second;
  }

  absl::Status AddOutputsOf(size_t index) {
    const EnsembleStep& step = spec_.steps[index];
    if (step.inputs.empty() || step.outputs.empty()) {
      return Refuse(StepText(spec_, index), " has no ",
                    step.inputs.empty() ? "input_map" : "output_map",
                    "; name at least one tensor there");
    }
    for (const auto& [name, tensor] : step.outputs) {
      ASSIGN_OR_RETURN(const int id,
                       AddTensor(tensor, static_cast<int>(index)));
      graph_.steps[index].outputs.push_back({name, id});
    }
    return absl::OkStatus();
  }

  absl::Status AddInputsOf(size_t index) {
    for (const auto& [name, tensor] : spec_.steps[index].inputs) {
      const auto found = tensors_.find(tensor);
      if (found == tensors_.end()) {
        return Refuse(StepText(spec_, index), " reads tensor ",
                      NameText(tensor),
                      ", which is no input of the ensemble and which no step "
                      "gives");
      }
      EnsembleGraph::Tensor& read =
          graph_.tensors[static_cast<size_t>(found->second)];
      read.readers.push_back(static_cast<int>(index));
      EnsembleGraph::Step& step = graph_.steps[index];
      step.inputs.push_back({name, found->second});
      if (read.producer != EnsembleGraph::kNoStep) ++step.waits;
    }
    return absl::OkStatus();
  }

  absl::Status AddOutputs() {
    for (const EnsembleTensor& output : spec_.outputs) {
      const auto found = tensors_.find(output.name);
      if (found == tensors_.end() ||
          graph_.tensors[static_cast<size_t>(found->second)].producer ==
              EnsembleGraph::kNoStep) {
        return Refuse("output ", NameText(output.name),
                      " of the ensemble is given by no step");
      }
      EnsembleGraph::Tensor& tensor =
          graph_.tensors[static_cast<size_t>(found->second)];
      if (tensor.is_output) {
        return Refuse("output ", NameText(output.name), " is listed twice");
      }
      tensor.is_output = true;
      graph_.outputs.push_back(found->second);
    }
    return absl::OkStatus();
  }

  absl::Status CheckInputsAreRead() const {
    for (size_t i = 0; i < spec_.inputs.size(); ++i) {
      if (!graph_.tensors[i].readers.empty()) continue;
      return Refuse("input ", NameText(spec_.inputs[i].name),
                    " of the ensemble is read by no step; remove it");
    }
    return absl::OkStatus();
  }

  // Walks the steps in the order in which they can run (Kahn's algorithm).
  absl::Status CheckOrder() const {
    std::vector<int> waits, ready;
    std::vector<size_t> depth(graph_.steps.size(), 1);
    for (size_t i = 0; i < graph_.steps.size(); ++i) {
      waits.push_back(graph_.steps[i].waits);
      if (waits.back() == 0) ready.push_back(static_cast<int>(i));
    }
    size_t done = 0;
    while (!ready.empty()) {
      const auto step = static_cast<size_t>(ready.back());
      ready.pop_back();
      ++done;
      if (depth[step] > kMaxEnsembleDepth) {
        return Refuse(StepText(spec_, step), " is number ", depth[step],
                      " of steps that follow one another; the limit is ",
                      kMaxEnsembleDepth);
      }
      for (const EnsembleGraph::Use& output : graph_.steps[step].outputs) {
        for (const int reader : ReadersOf(output)) {
          const auto next = static_cast<size_t>(reader);
          depth[next] = std::max(depth[next], depth[step] + 1);
          if (--waits[next] == 0) ready.push_back(reader);
        }
      }
    }
    if (done == graph_.steps.size()) return absl::OkStatus();
    return Refuse("steps wait for each other: ", CycleText(waits),
                  "; no step may need what it gives");
  }

  const std::vector<int>& ReadersOf(const EnsembleGraph::Use& use) const {
    return graph_.tensors[static_cast<size_t>(use.tensor)].readers;
  }

  // Returns a step that still waits and gives an input of `step`.
  int WaitsFor(int step, const std::vector<int>& waits) const {
    for (const EnsembleGraph::Use& input :
         graph_.steps[static_cast<size_t>(step)].inputs) {
      const int producer =
          graph_.tensors[static_cast<size_t>(input.tensor)].producer;
      if (producer != EnsembleGraph::kNoStep &&
          waits[static_cast<size_t>(producer)] > 0) {
        return producer;
      }
    }
    return step;
  }

  // Returns the steps of one cycle. Each step that still waits, waits for
  // another one that does, so the way back from any of them ends in a cycle.
  std::string CycleText(const std::vector<int>& waits) const {
    const auto waiting = std::find_if(waits.begin(), waits.end(),
                                      [](int count) { return count > 0; });
    int step = static_cast<int>(waiting - waits.begin());
    std::vector<int> way;
    while (std::find(way.begin(), way.end(), step) == way.end()) {
      way.push_back(step);
      step = WaitsFor(step, waits);
    }
    way.erase(way.begin(), std::find(way.begin(), way.end(), step));
    way.push_back(step);
    return absl::StrJoin(way, " needs ", [this](std::string* out, int index) {
      out->append(Text(index));
    });
  }

  const EnsembleSpec& spec_;
  EnsembleGraph graph_;
  std::map<std::string, int> tensors_;  // by name
};

}  // namespace

absl::StatusOr<EnsembleGraph> MakeEnsembleGraph(const EnsembleSpec& spec) {
  return GraphMaker(spec).Make();
}

std::string NameText(absl::string_view name) {
  return absl::StrCat("'", absl::Utf8SafeCEscape(name), "'");
}

std::string StepText(const EnsembleSpec& spec, size_t step) {
  return absl::StrCat("step ", step + 1, " (model ",
                      NameText(spec.steps[step].model), ")");
}

}  // namespace gpupool::server
