#include "engine/import/onnx/graph/run_loop.h"

#include <onnx/onnx_pb.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/import/onnx/file/tensor_data.h"
#include "engine/import/onnx/graph/graph_importer.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/stages.h"

namespace gpupool::engine::onnx_import {
namespace {

using Entries = std::vector<Entry>;

class LoopStages {
 public:
  LoopStages(NodeContext& ctx, const onnx::GraphProto& body)
      : ctx_(ctx),
        body_(body),
        importer_(ctx.importer()),
        stages_(ctx.importer().stages()),
        place_(importer_.Place()),
        // The first two inputs of Loop are the trip count and the condition.
        carried_(ctx.input_count() < 2 ? 0 : ctx.input_count() - 2) {}

  absl::Status Import() {
    if (!stages_.HasAnswer()) return EndBefore();
    if (Take().Next() == kEnterLoop) return Iterate();
    return Leave();
  }

 private:
  StageAnswerReader& Take() {
    return stages_.Take(importer_.model().graph.nodes().size());
  }

  // Adds an output to the stage, whose types are gathered in `types`.
  absl::Status Pass(const Entry& entry, absl::string_view what,
                    std::vector<StageTensor>& types) {
    ASSIGN_OR_RETURN(const ValueId value,
                     importer_.Materialize(entry, MemoryClass::kWeight));
    if (!value.valid()) {
      return ctx_.Refuse("a ", what, " is not a tensor, but the number of ",
                         "iterations depends on computed values");
    }
    // The line break keeps the name apart from all names of the file's own
    // outputs.
    const std::string name = absl::StrCat("\n", what, " ", types.size());
    types.push_back({name, ctx_.value(value).type()});
    outputs_.push_back({name, value});
    return absl::OkStatus();
  }

  // Sets `known`, or adds an output by which the host finds the number.
  absl::Status PassNumber(const Entry& entry, absl::string_view what,
                          std::optional<int64_t>& known) {
    std::vector<StageTensor> found;
    if (importer_.HasNumbers(entry)) {
      ASSIGN_OR_RETURN(const HostTensor numbers,
                       importer_.Numbers(entry, ctx_.Name(), what));
      if (numbers.numbers.size() != 1) {
        return ctx_.Refuse("the ", what, " has ", numbers.numbers.size(),
                           " elements; it must have one");
      }
      known = numbers.Integers()[0];
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(Pass(entry, what, found));
    if (found[0].type.shape.elements() != 1) {
      return ctx_.Refuse("the ", what, " is ", found[0].type.shape.ToString(),
                         "; it must have one element");
    }
    end_.reads.push_back(found[0]);
    return absl::OkStatus();
  }

  absl::Status PassCondition(const Entry& entry) {
    std::optional<int64_t> known;
    RETURN_IF_ERROR(PassNumber(entry, "condition", known));
    if (known.has_value()) end_.goes_on = *known != 0;
    return absl::OkStatus();
  }

  absl::Status End(StageEnd::Kind kind) {
    end_.kind = kind;
    end_.node = ctx_.Name();
    end_.place = place_;
    return importer_.EndStage(std::move(end_), std::move(outputs_));
  }

  absl::StatusOr<Entry> InputEntry(int i) {
    const Entry* entry = importer_.Find(ctx_.node().input(i));
    if (entry == nullptr) return ctx_.Refuse("input ", i, " is missing");
    return *entry;
  }

  absl::Status EndBefore() {
    if (ctx_.has_input(0)) {
      ASSIGN_OR_RETURN(const Entry trips, InputEntry(0));
      RETURN_IF_ERROR(PassNumber(trips, "trip count", end_.trips));
      end_.reads_trips = !end_.trips.has_value();
    }
    // ONNX takes a missing condition for true.
    end_.goes_on = true;
    if (ctx_.has_input(1)) {
      end_.goes_on.reset();
      ASSIGN_OR_RETURN(const Entry condition, InputEntry(1));
      RETURN_IF_ERROR(PassCondition(condition));
    }
    for (int i = 0; i < carried_; ++i) {
      ASSIGN_OR_RETURN(const Entry state, InputEntry(i + 2));
      RETURN_IF_ERROR(Pass(state, "carried value", end_.states));
    }
    return End(StageEnd::Kind::kLoop);
  }

  // Adds the values that the loop carries, with types from the answers.
  absl::StatusOr<Entries> TakeStates(std::vector<TensorType>& types) {
    Entries states;
    for (int i = 0; i < carried_; ++i) {
      types.push_back(Take().NextType());
      ASSIGN_OR_RETURN(
          const ValueId id,
          StageInput(ctx_,
                     StageInputName(place_, "state", static_cast<size_t>(i)),
                     types.back()));
      states.push_back(Entry::Tensor(id));
    }
    return states;
  }

  absl::Status Iterate() {
    std::vector<TensorType> types;
    ASSIGN_OR_RETURN(const Entries states, TakeStates(types));
    ASSIGN_OR_RETURN(const ValueId iteration,
                     StageInput(ctx_, StageInputName(place_, "iteration"),
                                {DType::kInt64, Shape()}));
    // The condition is true in each iteration that runs.
    Entries inputs{Entry::Tensor(iteration),
                   Entry::Tensor(ctx_.Scalar(DType::kBool, 1))};
    inputs.insert(inputs.end(), states.begin(), states.end());
    stages_.BeginIteration();
    ASSIGN_OR_RETURN(const Entries outputs,
                     importer_.ImportSubgraph(body_, inputs));
    RETURN_IF_ERROR(PassCondition(outputs[0]));
    for (size_t i = 1; i < outputs.size(); ++i) {
      // The body's outputs are the condition, the carried values and then the
      // scan outputs.
      const bool state = i <= types.size();
      RETURN_IF_ERROR(Pass(outputs[i], state ? "carried value" : "scan output",
                           state ? end_.states : end_.rows));
      if (!state || end_.states.back().type.dtype == types[i - 1].dtype) {
        continue;
      }
      return ctx_.Refuse("carried value ", i - 1, " is ",
                         DTypeName(types[i - 1].dtype), ", and the body makes ",
                         DTypeName(end_.states.back().type.dtype), " of it");
    }
    return End(StageEnd::Kind::kIteration);
  }

  absl::Status Leave() {
    const int64_t iterations = Take().Next();
    std::vector<TensorType> types;
    ASSIGN_OR_RETURN(Entries outputs, TakeStates(types));
    for (int i = carried_ + 1; i < body_.output_size(); ++i) {
      const auto row = static_cast<size_t>(i - carried_ - 1);
      // No iteration has told the type of the rows, so the declared type is
      // used.
      if (iterations == 0) {
        ASSIGN_OR_RETURN(const ValueId none, NoRows(ctx_, body_.output(i)));
        outputs.push_back(Entry::Tensor(none));
        continue;
      }
      const TensorType type = Take().NextType();
      std::vector<int64_t> dims = Dims(type.shape);
      dims.insert(dims.begin(), iterations);
      ASSIGN_OR_RETURN(const Shape shape, MakeShape(ctx_, dims));
      ASSIGN_OR_RETURN(const ValueId rows,
                       StageInput(ctx_, StageInputName(place_, "row", row),
                                  {type.dtype, shape}));
      outputs.push_back(Entry::Tensor(rows));
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!ctx_.wants_output(static_cast<int>(i))) continue;
      importer_.scope().Define(ctx_.node().output(static_cast<int>(i)),
                               outputs[i]);
    }
    return absl::OkStatus();
  }

  NodeContext& ctx_;
  const onnx::GraphProto& body_;
  GraphImporter& importer_;
  Stages& stages_;
  const std::string place_;
  const int carried_;
  StageEnd end_;
  std::vector<StageOutput> outputs_;
};

}  // namespace

absl::StatusOr<ValueId> NoRows(NodeContext& ctx,
                               const onnx::ValueInfoProto& declared) {
  const auto& type = declared.type().tensor_type();
  absl::StatusOr<DType> dtype = DTypeFromOnnx(type.elem_type());
  if (!dtype.ok()) return ctx.Unsupported(dtype.status().message());
  std::vector<int64_t> dims{0};
  for (const auto& dim : type.shape().dim()) dims.push_back(dim.dim_value());
  ASSIGN_OR_RETURN(const Shape shape, MakeShape(ctx, dims));
  return ctx.Constant({*dtype, shape, {}});
}

absl::Status RunLoop(NodeContext& ctx, const onnx::GraphProto& body) {
  return LoopStages(ctx, body).Import();
}

}  // namespace gpupool::engine::onnx_import
