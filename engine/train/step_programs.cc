#include "engine/train/step_programs.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "engine/passes/pipeline.h"
#include "engine/passes/schedule/recompute.h"
#include "engine/plan/liveness.h"
#include "engine/plan/memory_plan.h"
#include "engine/plan/report.h"
#include "engine/runtime/weight_store.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {
namespace {

// The passes from recomputation on. Those before run once, these for each rung.
constexpr absl::string_view kLatePasses[] = {"recompute", "schedule", "alias"};

bool IsLate(absl::string_view pass) {
  return std::find(std::begin(kLatePasses), std::end(kLatePasses), pass) !=
         std::end(kLatePasses);
}

// Returns the options that run the late passes without recomputation, or only
// the passes before them.
PassOptions PartOfPasses(bool late) {
  PassOptions options;
  for (const absl::string_view pass : PassNames()) {
    if (IsLate(pass) != late || pass == "recompute") {
      options.off.emplace_back(pass);
    }
  }
  return options;
}

// Returns the graphs that there are, in the order of StepGraphs.
std::vector<const Graph*> AllOf(const StepGraphs& graphs) {
  std::vector<const Graph*> all;
  for (const Graph* graph :
       {graphs.train, graphs.accumulate, graphs.short_step}) {
    if (graph != nullptr) all.push_back(graph);
  }
  return all;
}

// The graphs of one rung, ready to compile, in the order of AllOf. Empty above
// the top.
using Rung = std::vector<Graph>;

// The ladders of all programs, climbed side by side.
class StepLadder {
 public:
  static absl::StatusOr<StepLadder> Create(
      const StepGraphs& graphs, const std::vector<std::string>& layers) {
    StepLadder ladder;
    for (const Graph* graph : AllOf(graphs)) {
      Graph early = *graph;
      RETURN_IF_ERROR(RunPasses(early, PartOfPasses(false), nullptr));
      ladder.ladders_.push_back(
          std::make_unique<RecomputeLadder>(std::move(early), layers));
    }
    ladder.tops_.resize(ladder.ladders_.size(),
                        std::numeric_limits<size_t>::max());
    return ladder;
  }

  // Returns an empty rung above the top of all.
  absl::StatusOr<Rung> At(size_t number) {
    Rung rung;
    bool higher = false;
    for (size_t i = 0; i < ladders_.size(); ++i) {
      std::optional<Graph> graph = GraphAt(i, number);
      if (graph.has_value()) {
        higher = true;
      } else {
        graph = ladders_[i]->At(tops_[i]);
      }
      if (!graph.has_value()) return absl::InternalError("a rung is missing");
      RETURN_IF_ERROR(RunPasses(*graph, PartOfPasses(true), nullptr));
      rung.push_back(*std::move(graph));
    }
    return higher ? std::move(rung) : Rung();
  }

 private:
  StepLadder() = default;

  // Returns nothing above the top of this ladder, which it then notes.
  std::optional<Graph> GraphAt(size_t ladder, size_t number) {
    if (number > tops_[ladder]) return std::nullopt;
    std::optional<Graph> graph = ladders_[ladder]->At(number);
    if (!graph.has_value()) tops_[ladder] = number - 1;
    return graph;
  }

  std::vector<std::unique_ptr<RecomputeLadder>> ladders_;
  std::vector<size_t> tops_;  // known highest rungs
};

// A compiled rung and what it takes.
struct Compiled {
  StepPrograms programs;
  uint64_t peak = 0;  // of all programs of the job
  uint64_t flops = 0;
};

class StepCompiler {
 public:
  StepCompiler(const StepGraphs& graphs, const StepTarget& target)
      : graphs_(graphs), target_(target) {}

  // Compiles the step as it is.
  absl::StatusOr<Compiled> CompileWithout() const {
    Rung rung;
    for (const Graph* graph : AllOf(graphs_)) {
      rung.push_back(*graph);
      RETURN_IF_ERROR(RunPasses(rung.back(), {}, nullptr));
    }
    return Compile(std::move(rung));
  }

  absl::StatusOr<Compiled> Compile(Rung rung) const {
    ASSIGN_OR_RETURN(Program train, CompileGraph(std::move(rung[0])));
    Compiled compiled{{std::move(train), std::nullopt, std::nullopt, ""}};
    StepPrograms& programs = compiled.programs;
    std::vector<const Program*> all = {&programs.train};
    compiled.flops = GraphFlops(programs.train.graph());
    if (graphs_.accumulate != nullptr) {
      ASSIGN_OR_RETURN(programs.accumulate, CompileGraph(std::move(rung[1])));
      all.push_back(&*programs.accumulate);
      compiled.flops += (graphs_.batches_per_step - 1) *
                        GraphFlops(programs.accumulate->graph());
    }
    if (graphs_.short_step != nullptr) {
      ASSIGN_OR_RETURN(programs.short_step,
                       CompileGraph(std::move(rung.back())));
      all.push_back(&*programs.short_step);
    }
    if (target_.eval != nullptr) all.push_back(target_.eval);
    std::vector<const Graph*> graphs;
    std::vector<ProgramBytes> bytes;
    for (const Program* program : all) {
      graphs.push_back(&program->graph());
      bytes.push_back(program->bytes());
    }
    ASSIGN_OR_RETURN(const WeightLayout layout, WeightLayout::Create(graphs));
    compiled.peak = ReportBytes(layout.bytes(), bytes).peak;
    return compiled;
  }

  // Returns a number of bytes that no compiled rung is below: the values that
  // live at one time, the weights, and the program for evaluation.
  absl::StatusOr<uint64_t> LowerBound(const Rung& rung) const {
    std::vector<const Graph*> graphs;
    std::vector<ProgramBytes> bytes;
    for (const Graph& graph : rung) {
      graphs.push_back(&graph);
      bytes.push_back({.arena = LiveBytes(graph)});
    }
    if (target_.eval != nullptr) {
      graphs.push_back(&target_.eval->graph());
      bytes.push_back(target_.eval->bytes());
    }
    ASSIGN_OR_RETURN(const WeightLayout layout, WeightLayout::Create(graphs));
    return ReportBytes(layout.bytes(), bytes).peak;
  }

 private:
  absl::StatusOr<Program> CompileGraph(Graph graph) const {
    return Program::Compile(std::move(graph), target_.backend, target_.kernels);
  }

  static uint64_t LiveBytes(const Graph& graph) {
    const Liveness liveness = AnalyseLiveness(graph);
    std::vector<PlanItem> items;
    for (const Buffer& buffer : liveness.buffers) {
      if (buffer.place != Place::kArena) continue;
      items.push_back({buffer.bytes, buffer.lifetime});
    }
    return FindPeak(items).bytes;
  }

  const StepGraphs& graphs_;
  const StepTarget& target_;
};

// Climbs to the first rung within the budget.
absl::StatusOr<Compiled> WithinBudget(const StepCompiler& compiler,
                                      StepLadder& ladder, uint64_t budget) {
  std::vector<uint64_t> bounds;
  uint64_t least = std::numeric_limits<uint64_t>::max();
  for (size_t number = 0;; ++number) {
    ASSIGN_OR_RETURN(Rung rung, ladder.At(number));
    if (rung.empty()) break;
    ASSIGN_OR_RETURN(const uint64_t bound, compiler.LowerBound(rung));
    bounds.push_back(bound);
    if (bound > budget) continue;
    ASSIGN_OR_RETURN(Compiled compiled, compiler.Compile(std::move(rung)));
    if (compiled.peak <= budget) return compiled;
    bounds.back() = std::numeric_limits<uint64_t>::max();
    least = std::min(least, compiled.peak);
  }
  // Finds the lowest peak. Compiles the remaining rungs in the order of their
  // lower bounds, until no bound is below the lowest peak so far.
  while (true) {
    const auto next = std::min_element(bounds.begin(), bounds.end());
    if (*next >= least) break;
    ASSIGN_OR_RETURN(Rung rung,
                     ladder.At(static_cast<size_t>(next - bounds.begin())));
    *next = std::numeric_limits<uint64_t>::max();
    ASSIGN_OR_RETURN(const Compiled compiled,
                     compiler.Compile(std::move(rung)));
    least = std::min(least, compiled.peak);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "recompute.budget_bytes ", budget, " is too low: the least that was ",
      "found is ", least,
      " bytes; raise it, lower batch_size or name layers to recompute"));
}

std::string Percent(uint64_t more, uint64_t than) {
  const double share =
      100 * (static_cast<double>(more) /
                 static_cast<double>(std::max<uint64_t>(than, 1)) -
             1);
  return absl::StrFormat("%.*f%%", share < 10 ? 1 : 0, share);
}

// Returns a sentence about what recomputation has changed.
std::string NoteOf(const Compiled& plain, const Compiled& chosen,
                   bool names_layers) {
  const std::string cost =
      absl::StrCat(Percent(chosen.flops, plain.flops), " more FLOPs (",
                   chosen.flops, " instead of ", plain.flops, ")");
  if (chosen.peak < plain.peak) {
    return absl::StrCat("note: recomputation takes ", plain.peak - chosen.peak,
                        " bytes off the peak of the training, which is ",
                        chosen.peak, " instead of ", plain.peak,
                        "; a step takes ", cost);
  }
  if (!names_layers) return "";
  if (chosen.flops == plain.flops) {
    return "recompute.layers has no effect: the backward pass reads no "
           "activation that only these layers need; name other layers, or set "
           "recompute.budget_bytes";
  }
  return absl::StrCat(
      "recompute.layers saves nothing: the peak of the training stays at ",
      chosen.peak, " bytes (", plain.peak, " without), and a step takes ", cost,
      "; neighbours form one region, so name fewer layers, such as every "
      "second block, or set recompute.budget_bytes instead");
}

}  // namespace

absl::StatusOr<StepPrograms> CompileSteps(const StepGraphs& graphs,
                                          const v1::Recompute& recompute,
                                          const StepTarget& target) {
  const StepCompiler compiler(graphs, target);
  const std::vector<std::string> layers(recompute.layers().begin(),
                                        recompute.layers().end());
  const uint64_t budget = recompute.budget_bytes();
  if (layers.empty() && budget == 0) {
    ASSIGN_OR_RETURN(Compiled kept, compiler.CompileWithout());
    return std::move(kept.programs);
  }
  ASSIGN_OR_RETURN(StepLadder plain_ladder, StepLadder::Create(graphs, {}));
  ASSIGN_OR_RETURN(Rung plain_rung, plain_ladder.At(0));
  ASSIGN_OR_RETURN(Compiled plain, compiler.Compile(std::move(plain_rung)));
  if (layers.empty() && plain.peak <= budget) {
    return std::move(plain.programs);
  }
  std::optional<StepLadder> named;
  if (!layers.empty()) {
    ASSIGN_OR_RETURN(named, StepLadder::Create(graphs, layers));
  }
  StepLadder& ladder = named.has_value() ? *named : plain_ladder;
  std::optional<Compiled> chosen;
  if (budget > 0) {
    ASSIGN_OR_RETURN(chosen, WithinBudget(compiler, ladder, budget));
  } else {
    ASSIGN_OR_RETURN(Rung rung, ladder.At(0));
    ASSIGN_OR_RETURN(chosen, compiler.Compile(std::move(rung)));
  }
  chosen->programs.note = NoteOf(plain, *chosen, !layers.empty());
  return std::move(chosen->programs);
}

}  // namespace gpupool::engine
