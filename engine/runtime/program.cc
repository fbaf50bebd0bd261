#include "engine/runtime/program.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/align.h"
#include "engine/base/status_macros.h"
#include "engine/plan/check_plan.h"
#include "engine/plan/memory_plan.h"
#include "engine/runtime/value_identity.h"

namespace gpupool::engine {
namespace {

// Returns for each value whether nothing writes it while steps run.
std::vector<bool> FindStableValues(const Graph& graph) {
  std::vector<bool> stable(graph.values().size(), false);
  for (const Value& value : graph.values()) {
    stable[static_cast<size_t>(value.id.index)] =
        value.kind == ValueKind::kPersistent ||
        value.kind == ValueKind::kDerived || value.kind == ValueKind::kConstant;
  }
  for (const Value& value : graph.values()) {
    if (value.alias.kind == AliasKind::kUpdate) {
      // A step writes this weight, as in training.
      stable[static_cast<size_t>(value.alias.of.index)] = false;
    }
  }
  return stable;
}

// Returns whether the node moves no bytes and needs no launch.
bool IsView(const Graph& graph, const Node& node) {
  return std::all_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) {
    return graph.value(id).alias.kind == AliasKind::kView;
  });
}

// Returns a key for what a kernel packs: its format and the operands that it
// may pack. Empty when no operand has an identity.
std::string PackedKey(const ValueIdentities& identities, const Node& node,
                      const Kernel& kernel) {
  const std::string format = kernel.resident_format();
  if (format.empty()) return "";
  std::string key = absl::StrCat("packed ", format);
  bool named = false;
  for (const ValueId input : node.inputs) {
    const std::string& operand = identities.of(input);
    named = named || !operand.empty();
    absl::StrAppend(&key, " ", operand.empty() ? "-" : operand);
  }
  return named ? key : "";
}

}  // namespace

absl::StatusOr<Program> Program::Compile(Graph graph, DeviceBackend* backend,
                                         const KernelOptions& options) {
  Program program;
  program.graph_ = std::move(graph);
  program.backend_ = backend;
  program.liveness_ = AnalyseLiveness(program.graph_);
  program.offsets_.assign(program.liveness_.buffers.size(), 0);
  RETURN_IF_ERROR(program.SelectKernels(options));
  RETURN_IF_ERROR(program.CheckTotal());
  RETURN_IF_ERROR(program.PlanArena());
  program.PlaceResidents();
  return program;
}

absl::Status Program::SelectKernels(const KernelOptions& options) {
  const std::vector<bool> stable = FindStableValues(graph_);
  for (size_t i = 0; i < graph_.nodes().size(); ++i) {
    const Node& node = graph_.nodes()[i];
    if (IsView(graph_, node)) continue;
    CompileRequest request{graph_, node, {}, options};
    for (const ValueId input : node.inputs) {
      request.stable_inputs.push_back(stable[static_cast<size_t>(input.index)]);
    }
    auto kernel = backend_->Compile(request);
    if (!kernel.ok()) {
      return absl::Status(
          kernel.status().code(),
          absl::StrCat("layer \"", node.source, "\" (", OpName(node.op),
                       "): ", kernel.status().message()));
    }
    Launch launch;
    launch.node = static_cast<int>(i);
    launch.kernel = *std::move(kernel);
    if (node.stage == Stage::kLoad) ++load_launches_;
    launches_.push_back(std::move(launch));
  }
  return absl::OkStatus();
}

absl::Status Program::CheckTotal() const {
  uint64_t total = 0;
  const auto add = [&](uint64_t bytes, absl::string_view what,
                       absl::string_view name) -> absl::Status {
    if (bytes <= kMaxPlannedBytes) total += AlignUp(bytes);
    if (bytes <= kMaxPlannedBytes && total <= kMaxPlannedBytes) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        what, " \"", name, "\" needs ", bytes, " bytes; with it the program's ",
        "values take more than ", kMaxPlannedBytes,
        " bytes, which no device has; use a smaller batch or smaller shapes"));
  };
  for (const Buffer& buffer : liveness_.buffers) {
    RETURN_IF_ERROR(add(buffer.bytes, "value", graph_.value(buffer.root).name));
  }
  for (const Launch& launch : launches_) {
    const Node& node = graph_.nodes()[static_cast<size_t>(launch.node)];
    RETURN_IF_ERROR(
        add(launch.kernel->workspace_bytes(), "layer", node.source));
    RETURN_IF_ERROR(add(launch.kernel->resident_bytes(), "layer", node.source));
  }
  return absl::OkStatus();
}

absl::Status Program::PlanArena() {
  std::vector<PlanItem> items;
  std::vector<int> buffer_of_item;
  for (size_t i = 0; i < liveness_.buffers.size(); ++i) {
    const Buffer& buffer = liveness_.buffers[i];
    if (buffer.place != Place::kArena) continue;
    items.push_back({buffer.bytes, buffer.lifetime});
    buffer_of_item.push_back(static_cast<int>(i));
  }
  // A workspace lives only during its launch, so it shares bytes with buffers.
  const size_t buffers = items.size();
  for (const Launch& launch : launches_) {
    items.push_back(
        {launch.kernel->workspace_bytes(), {launch.node, launch.node}});
  }
  // The plan is checked on its own: a wrong one would corrupt results silently.
  const MemoryPlan plan = PlanMemory(items);
  RETURN_IF_ERROR(CheckPlan(items, plan));
  for (size_t i = 0; i < buffers; ++i) {
    offsets_[static_cast<size_t>(buffer_of_item[i])] = plan.offsets[i];
  }
  for (size_t i = 0; i < launches_.size(); ++i) {
    launches_[i].workspace_offset = plan.offsets[buffers + i];
  }
  bytes_.arena = plan.arena_bytes;
  const PeakMoment peak = FindPeak(items);
  bytes_.arena_lower_bound = peak.bytes;
  // The byte classes are those of the items that live at the peak.
  const int moment = peak.position;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].lifetime.Overlaps({moment, moment})) continue;
    const Buffer* buffer =
        i < buffers ? &liveness_.buffers[static_cast<size_t>(buffer_of_item[i])]
                    : nullptr;
    // Derived values are in the arena only for other load nodes.
    const bool workspace =
        buffer == nullptr ||
        graph_.value(buffer->root).kind == ValueKind::kDerived;
    const bool gradient =
        !workspace && buffer->memory_class == MemoryClass::kGradient;
    (workspace  ? bytes_.workspace
     : gradient ? bytes_.gradients
                : bytes_.activations) += AlignUp(items[i].bytes);
  }
  return absl::OkStatus();
}

void Program::PlaceResidents() {
  // Blocks with equal keys are shared with other programs of the model.
  const ValueIdentities identities(graph_);
  const auto add = [&](std::string key, uint64_t bytes) {
    bytes_.residents.push_back({std::move(key), bytes});
    return bytes_.residents.size() - 1;
  };
  for (size_t i = 0; i < liveness_.buffers.size(); ++i) {
    const Buffer& buffer = liveness_.buffers[i];
    if (buffer.place != Place::kResident) continue;
    offsets_[i] = add(identities.of(buffer.root), buffer.bytes);
  }
  for (Launch& launch : launches_) {
    const uint64_t bytes = launch.kernel->resident_bytes();
    if (bytes == 0) continue;
    const Node& node = graph_.nodes()[static_cast<size_t>(launch.node)];
    launch.resident = static_cast<int>(
        add(PackedKey(identities, node, *launch.kernel), bytes));
  }
}

}  // namespace gpupool::engine
