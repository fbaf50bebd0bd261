// Loads models whose rows influence each other, and sends them requests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <vector>

#include "engine/base/sha256.h"
#include "tests/engine/import/onnx/model_text.h"
#include "tests/engine/session_fixture.h"

namespace gpupool::engine {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class LoadedRowsTest : public SessionFixture {
 protected:
  absl::StatusOr<ImportedModel> Import(const std::string& graph,
                                       uint32_t max_batch_size = 4) {
    const std::string bytes =
        onnx_import::ModelOfGraph(graph).SerializeAsString();
    v1::ModelSpec spec;
    spec.mutable_onnx()->set_sha256(Sha256Hex(bytes));
    std::ofstream(blob_dir_ + "/" + spec.onnx().sha256(), std::ios::binary)
        << bytes;
    return session_->ImportModel(spec, "", {.max_batch_size = max_batch_size});
  }

  std::unique_ptr<ServedModel> Load(const ImportedModel& imported) {
    auto model =
        session_->LoadModel({.version_id = 1,
                             .name = "rows/1",
                             .manifest_sha256 = imported.manifest_sha256,
                             .max_batch_size = 4,
                             .limit_bytes = imported.plan.inference().peak()});
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? *std::move(model) : nullptr;
  }
};

constexpr char kCentred[] = R"((float[N, 2] x) => (float[N, 2] y) {
    mean = ReduceMean <axes = [0], keepdims = 1> (x)
    y = Sub(x, mean)
  })";

TEST_F(LoadedRowsTest, ThePlanNamesTheNodeThatMixesRows) {
  const auto imported = Import(kCentred);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_TRUE(imported->plan.computes_alone());
  ASSERT_THAT(imported->plan.warnings(), SizeIs(1));
  EXPECT_THAT(imported->plan.warnings(0), HasSubstr("(reduce)"));
  EXPECT_THAT(imported->plan.warnings(0),
              HasSubstr("every request is computed alone"));
}

TEST_F(LoadedRowsTest, RowsThatAreProvenApartGiveNoWarning) {
  const auto imported = Import(R"((float[N, 2] x) => (float[N, 2] y) {
      mean = ReduceMean <axes = [1], keepdims = 1> (x)
      y = Sub(x, mean)
    })");
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_FALSE(imported->plan.computes_alone());
  EXPECT_THAT(imported->plan.warnings(), IsEmpty());
}

// Parts of networks as exporters write them.
struct Part {
  const char* name;
  const char* graph;
};
constexpr Part kParts[] = {
    {"attention whose shapes come from the input",
     R"((float[N, 6, 8] x) => (float[N, 6, 8] y)
       <int64[1] zero = {0}, int64[3] tail = {6, 2, 4}, int64[2] flat = {6, 8},
        float root = {2}> {
         shape = Shape(x)
         rows = Gather(shape, zero)
         split = Concat <axis = 0> (rows, tail)
         joined = Concat <axis = 0> (rows, flat)
         heads = Reshape(x, split)
         q = Transpose <perm = [0, 2, 1, 3]> (heads)
         k = Transpose <perm = [0, 2, 3, 1]> (heads)
         scores = MatMul(q, k)
         scaled = Div(scores, root)
         weights = Softmax <axis = -1> (scaled)
         mixed = MatMul(weights, q)
         back = Transpose <perm = [0, 2, 1, 3]> (mixed)
         y = Reshape(back, joined)
       })"},
    {"attention of sequences in front, with heads in the batch",
     R"((float[N, 6, 8] x) => (float[N, 6, 8] y)
       <int64[1] one = {1}, int64[1] six = {6}, int64[1] four = {4},
        int64[1] heads = {2}, int64[1] eight = {8}> {
         sequence = Transpose <perm = [1, 0, 2]> (x)
         shape = Shape(sequence)
         rows = Gather(shape, one)
         both = Mul(rows, heads)
         split = Concat <axis = 0> (six, both, four)
         joined = Concat <axis = 0> (six, rows, eight)
         flat = Reshape(sequence, split)
         q = Transpose <perm = [1, 0, 2]> (flat)
         k = Transpose <perm = [1, 2, 0]> (flat)
         scores = MatMul(q, k)
         weights = Softmax <axis = -1> (scores)
         mixed = MatMul(weights, q)
         there = Transpose <perm = [1, 0, 2]> (mixed)
         merged = Reshape(there, joined)
         y = Transpose <perm = [1, 0, 2]> (merged)
       })"},
    {"positions and a causal mask, expanded to the batch",
     R"((int64[N, 4] ids) => (float[N, 4, 4] y)
       <float[9, 3] table = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8,
                             9, 1, 2, 3, 4, 5, 6, 7, 8, 9},
        float[4, 3] places = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3},
        int64 first = {0}, int64 last = {4}, int64 step = {1},
        int64[2] pair = {4, 4}, int64[1] zero = {0}, float hidden = {-10000},
        float[1, 4, 4] lower = {1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1}>
       {
         shape = Shape(ids)
         rows = Gather(shape, zero)
         range = Range(first, last, step)
         every = Expand(range, shape)
         position = Gather(places, every)
         token = Gather(table, ids)
         x = Add(token, position)
         turned = Transpose <perm = [0, 2, 1]> (x)
         scores = MatMul(x, turned)
         square = Concat <axis = 0> (rows, pair)
         mask = Expand(lower, square)
         seen = Cast <to = 9> (mask)
         masked = Where(seen, scores, hidden)
         y = Softmax <axis = -1> (masked)
       })"},
    {"a recurrent layer with its own first state",
     R"((float[N, 5, 2] x) => (float[N, 3] y)
       <float[1, 12, 2] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8,
                             9, 1, 2, 3, 4, 5, 6},
        float[1, 12, 3] r = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8,
                             9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7,
                             8, 9},
        int64[1] one = {1}, int64[1] front = {1}, int64[1] cells = {3},
        int64[1] zero = {0}> {
         sequence = Transpose <perm = [1, 0, 2]> (x)
         shape = Shape(sequence)
         rows = Gather(shape, one)
         first = Concat <axis = 0> (front, rows, cells)
         state = ConstantOfShape(first)
         all, last, cell = LSTM <hidden_size = 3>
             (sequence, w, r, , , state, state)
         y = Squeeze(last, zero)
       })"},
    {"images",
     R"((float[N, 2, 4, 4] x) => (float[N, 6] y)
       <float[3, 2, 3, 3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7,
                               8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5,
                               6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3,
                               4, 5, 6, 7, 8, 9},
        float[3] one = {1, 1, 1}, float[3] zero = {0, 0, 0},
        float[4] larger = {1, 1, 2, 2}> {
         c = Conv <pads = [1, 1, 1, 1]> (x, w)
         n = BatchNormalization(c, one, zero, zero, one)
         i = InstanceNormalization(n, one, zero)
         u = Resize <mode = "linear"> (i, , larger)
         m = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (u)
         a = GlobalAveragePool(m)
         f = Flatten(a)
         y = Concat <axis = 1> (f, f)
       })"},
};

TEST_F(LoadedRowsTest, RequestsToUsualNetworksShareBatches) {
  for (const Part& part : kParts) {
    SCOPED_TRACE(part.name);
    for (const uint32_t largest : {2, 8}) {
      const auto imported = Import(part.graph, largest);
      ASSERT_TRUE(imported.ok()) << imported.status();
      EXPECT_FALSE(imported->plan.computes_alone());
      // A mask is not trained, which says nothing about its rows.
      EXPECT_THAT(imported->plan.warnings(), Each(HasSubstr("not trained")));
    }
  }
}

// A bucket of four would count a row of zeros.
TEST_F(LoadedRowsTest, AMixingModelSeesExactlyTheRowsOfTheRequest) {
  const auto imported = Import(kCentred);
  ASSERT_TRUE(imported.ok()) << imported.status();
  auto model = Load(*imported);
  ASSERT_NE(model, nullptr);
  for (int round = 0; round < 2; ++round) {
    EXPECT_THAT(Answers(*model, {1, 2, 5, 6, 9, 10}),
                ElementsAre(-4, -4, 0, 0, 4, 4));
    EXPECT_THAT(Answers(*model, {1, 2}), ElementsAre(0, 0));
    EXPECT_THAT(Answers(*model, {1, 2, 3, 4}), ElementsAre(-1, -1, 1, 1));
  }
  EXPECT_LE(model->measured_bytes(), imported->plan.inference().peak());
}

TEST_F(LoadedRowsTest, ABatchOfOneNeedsNoProof) {
  const auto imported = Import(kCentred, 1);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_FALSE(imported->plan.computes_alone());
}

// Only one batch above 1 is planned, and the graph divides by its size.
TEST_F(LoadedRowsTest, ANumberThatIsTheBatchIsFoundForTwoRows) {
  const auto imported = Import(R"((float[N, 2] x) => (float[N, 2] y)
      <int64[1] zero = {0}> {
        shape = Shape(x)
        rows = Gather(shape, zero)
        count = Cast <to = 1> (rows)
        y = Div(x, count)
      })",
                               2);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_TRUE(imported->plan.computes_alone());
}

// At a batch of one the first dimension of the mean looks like the batch.
TEST_F(LoadedRowsTest, AnOutputThatDoesNotGrowWithTheBatchHasNone) {
  const auto imported = Import(R"((float[N, 2] x) => (float[M, 2] y) {
      y = ReduceMean <axes = [0], keepdims = 1> (x)
    })");
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_THAT(imported->plan.inputs(0).shape(), ElementsAre(1, 2));
  EXPECT_THAT(imported->plan.outputs(0).shape(), ElementsAre(1, 2));
}

}  // namespace
}  // namespace gpupool::engine
