// Loads models whose execution depends on computed values, and compares their
// answers with numbers that were worked out by hand or by plain loops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tests/engine/import/onnx/model_text.h"
#include "tests/engine/stages_fixture.h"

namespace gpupool::engine {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class LoadedStagesTest : public StagesFixture {
 protected:
  v1::ModelSpec Model(const std::string& graph) {
    return Store(onnx_import::ModelOfGraph(graph).SerializeAsString());
  }
  // Returns null if importing or loading fails.
  std::unique_ptr<ServedModel> LoadText(const std::string& graph,
                                        uint32_t max_programs = 16) {
    auto model = Load(Model(graph), max_programs);
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? *std::move(model) : nullptr;
  }
  // Returns the only output, or fails the test.
  template <typename T>
  std::vector<T> One(ServedModel& model, const std::vector<Sent>& sent) {
    auto received = Ask(model, sent);
    EXPECT_TRUE(received.ok()) << received.status();
    if (!received.ok()) return {};
    shape_ = (*received)[0].shape;
    return (*received)[0].template As<T>();
  }
  std::string Refusal(const std::string& graph) {
    return std::string(
        session_->ImportModel(Model(graph), "", {}).status().message());
  }

  std::vector<int64_t> shape_;
};

// The branches have different weights and read a value from outside.
constexpr char kIf[] = R"((float[2] x) => (float[2] y)
  <float[2] up = {10, 20}, float[2] down = {1, 2}, int64[1] zero = {0}> {
    h = Mul(x, x)
    s = ReduceSum <keepdims = 0> (x)
    none = Sub(s, s)
    c = Greater(s, none)
    a = If (c) <
      then_branch = t () => (float[2] p) { p = Add(h, up) },
      else_branch = e () => (float[2] n) { m = Neg(h) n = Mul(m, down) }>
    y = Add(a, x)
  })";

TEST_F(LoadedStagesTest, AnIfTakesTheBranchOfAComputedCondition) {
  auto model = LoadText(kIf);
  ASSERT_NE(model, nullptr);
  EXPECT_THAT(One<float>(*model, {Sent::Of<float>({3, -1})}),
              ElementsAre(9 + 10 + 3, 1 + 20 - 1));
  EXPECT_THAT(shape_, ElementsAre(2));
  EXPECT_THAT(One<float>(*model, {Sent::Of<float>({-3, 1})}),
              ElementsAre(-9 - 3, -2 + 1));
  // Both branches were planned, so nothing is made for a request.
  EXPECT_EQ(answer_.compiled, 0u);
  EXPECT_THAT(plan_.warnings(0),
              HasSubstr("If 'a' decides with computed values"));
}

TEST_F(LoadedStagesTest, AnIfReadsAnInputAsItsCondition) {
  auto model = LoadText(
      "(float[2] x, bool c) => (float[2] y) { y = If (c) <"
      "then_branch = t () => (float[2] a) { a = Neg(x) }, "
      "else_branch = e () => (float[2] b) { b = Abs(x) }> }");
  ASSERT_NE(model, nullptr);
  const Sent x = Sent::Of<float>({1, -2});
  EXPECT_THAT(One<float>(*model, {x, Sent::Of<char>({1})}), ElementsAre(-1, 2));
  EXPECT_THAT(One<float>(*model, {x, Sent::Of<char>({0})}), ElementsAre(1, 2));
}

// Doubles x until its sum passes the limit, and keeps every value.
constexpr char kLoop[] = R"((float[2] x, float limit)
  => (float[2] y, float[N, 2] all, float[2] z)
  <bool start = {1}> {
    h = Mul(x, x)
    y, all = Loop (_, start, x) <body = b (int64 i, bool go, float[2] s)
      => (bool next, float[2] t, float[2] row) {
        t = Add(s, s)
        n = ReduceSum <keepdims = 0> (t)
        next = Less(n, limit)
        f = Cast <to = 1> (i)
        r = Add(t, h)
        row = Add(r, f)
      }>
    z = Add(y, h)
  })";

TEST_F(LoadedStagesTest, ALoopEndsWithAComputedCondition) {
  auto model = LoadText(kLoop, 4);
  ASSERT_NE(model, nullptr);
  for (const float limit : {1.0F, 30.0F, 4000.0F}) {
    auto received =
        Ask(*model, {Sent::Of<float>({1, 2}), Sent::Of<float>({limit})});
    ASSERT_TRUE(received.ok()) << received.status();
    std::vector<float> state = {1, 2}, rows;
    for (float i = 0; i == 0 || state[0] + state[1] < limit; ++i) {
      state = {2 * state[0], 2 * state[1]};
      rows.insert(rows.end(), {state[0] + 1 + i, state[1] + 4 + i});
    }
    EXPECT_EQ((*received)[0].As<float>(), state);
    EXPECT_EQ((*received)[1].As<float>(), rows);
    EXPECT_THAT((*received)[1].shape,
                ElementsAre(static_cast<int64_t>(rows.size() / 2), 2));
    EXPECT_THAT((*received)[2].As<float>(),
                ElementsAre(state[0] + 1, state[1] + 4));
  }
}

// Stacked rows and what an If in the body passes on are held at once, but only
// from the second iteration on.
TEST_F(LoadedStagesTest, ALoopKeepsItsRowsBesidesWhatItsBodyPassesOn) {
  auto model = LoadText(
      "(float[64] x, int64 n) => (float[64] y, float[N] sums) "
      "<int64 most = {3}, float zero = {0}> {"
      "y, sums = Loop (n, , x) <body = b (int64 i, bool go, float[64] s) => "
      "(bool next, float[64] t, float row) { next = Identity(go) "
      "a = Exp(s) d = Abs(s) row = ReduceSum <keepdims = 0> (s) "
      "c = Greater(row, zero) u = If (c) <"
      "then_branch = f () => (float[64] p) { p = Neg(d) }, "
      "else_branch = e () => (float[64] q) { q = Identity(d) }> "
      "v = Sub(u, a) t = Add(v, a) }> }");
  ASSERT_NE(model, nullptr);
  auto got = Ask(*model,
                 {Sent::Of(std::vector<float>(64, 1)), Sent::Of<int64_t>({3})});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT((*got)[1].As<float>(), ElementsAre(64, -64, 64));
  EXPECT_NEAR((*got)[0].As<float>()[5], -1, 1e-5);
}

// Each iteration appends what it found, also to nothing.
TEST_F(LoadedStagesTest, ALoopMayAppendComputedNumbersOfRows) {
  auto model = LoadText(
      "(float[3] x, int64 n) => (float[N] y) {"
      "never = Greater(x, x) none = Compress(x, never) "
      "y = Loop (n, , none) <body = b (int64 i, bool go, float[K] s) => "
      "(bool next, float[M] t) { next = Identity(go) f = Cast <to = 1> (i) "
      "k = Greater(x, f) r = Compress(x, k) t = Concat <axis = 0> (s, r) }> }");
  ASSERT_NE(model, nullptr);
  const Sent x = Sent::Of<float>({0.5, 2, 1.5});
  EXPECT_THAT(One<float>(*model, {x, Sent::Of<int64_t>({0})}), IsEmpty());
  EXPECT_THAT(One<float>(*model, {x, Sent::Of<int64_t>({1})}),
              ElementsAre(0.5, 2, 1.5));
  EXPECT_THAT(One<float>(*model, {x, Sent::Of<int64_t>({3})}),
              ElementsAre(0.5, 2, 1.5, 2, 1.5));
  // More than all rows of one iteration and of what was before the loop.
  const absl::Status many =
      Ask(*model, {Sent::Of<float>({7, 8, 9}), Sent::Of<int64_t>({3})})
          .status();
  EXPECT_EQ(many.code(), absl::StatusCode::kResourceExhausted) << many;
}

// The rows of a slice are computed, and yet the same in every iteration.
TEST_F(LoadedStagesTest, ALoopSlicesByItsIteration) {
  auto model = LoadText(
      "(float[5] x, int64 n) => (float[1] y, float[N, 1] all) "
      "<int64[1] axis = {0}, int64 one = {1}, float[1] zero = {0}> {"
      "y, all = Loop (n, , zero) <body = b (int64 i, bool go, float[1] s) => "
      "(bool next, float[1] t, float[1] row) { next = Identity(go) "
      "j = Add(i, one) from = Unsqueeze(i, axis) to = Unsqueeze(j, axis) "
      "r = Slice(x, from, to) t = Add(s, r) row = Identity(t) }> }");
  ASSERT_NE(model, nullptr);
  auto got =
      Ask(*model, {Sent::Of<float>({1, 2, 3, 4, 5}), Sent::Of<int64_t>({5})});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT((*got)[0].As<float>(), ElementsAre(15));
  EXPECT_THAT((*got)[1].As<float>(), ElementsAre(1, 3, 6, 10, 15));
  EXPECT_THAT((*got)[1].shape, ElementsAre(5, 1));
}

// The carried values change places, and one of them is an input of the model.
TEST_F(LoadedStagesTest, CarriedValuesMayChangePlaces) {
  auto model = LoadText(
      "(float a, float b, int64 n) => (float y, float z, float[N] all) {"
      "y, z, all = Loop (n, , a, b) <body = l (int64 i, bool go, float s, "
      "float t) => (bool next, float t1, float s1, float row) { "
      "next = Identity(go) t1 = Identity(t) s1 = Identity(s) "
      "row = Add(s, b) }> }");
  ASSERT_NE(model, nullptr);
  auto got = Ask(*model, {Sent::Of<float>({1}), Sent::Of<float>({5}),
                          Sent::Of<int64_t>({3})});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT((*got)[0].As<float>(), ElementsAre(5));
  EXPECT_THAT((*got)[1].As<float>(), ElementsAre(1));
  EXPECT_THAT((*got)[2].As<float>(), ElementsAre(6, 10, 6));
}

// Outputs may come from any stage, from weights and from inputs.
TEST_F(LoadedStagesTest, OutputsOfEarlierStagesAreAnswered) {
  auto model = LoadText(
      "(float[2] x, float[2] late, float[2] unused) => (float[2] h, "
      "float[2] same, float[2] w2, float[2] sum, float[2] y, float[2] y2) "
      "<float[2] w = {3, 4}, float zero = {0}> { "
      "h = Exp(x) same = Identity(x) w2 = Neg(w) "
      "s = ReduceSum <keepdims = 0> (x) c = Greater(s, zero) "
      "y, y1 = If (c) <then_branch = t () => (float[2] a, float[2] a1) "
      "{ a = Add(late, w2) a1 = Identity(h) }, "
      "else_branch = e () => (float[2] b, float[2] b1) "
      "{ b = Identity(w) b1 = Identity(x) }> "
      "y2 = Mul(y1, late) sum = Add(x, h) }");
  ASSERT_NE(model, nullptr);
  for (const float sign : {1.0F, -1.0F}) {
    auto got = Ask(*model, {Sent::Of<float>({sign, 2 * sign}),
                            Sent::Of<float>({7, 9}), Sent::Of<float>({0, 0})});
    ASSERT_TRUE(got.ok()) << got.status();
    const float e1 = std::exp(sign), e2 = std::exp(2 * sign);
    const bool up = sign > 0;
    using testing::FloatEq;
    EXPECT_THAT((*got)[0].As<float>(), ElementsAre(FloatEq(e1), FloatEq(e2)));
    EXPECT_THAT((*got)[1].As<float>(), ElementsAre(sign, 2 * sign));
    EXPECT_THAT((*got)[2].As<float>(), ElementsAre(-3, -4));
    EXPECT_THAT((*got)[3].As<float>(),
                ElementsAre(FloatEq(sign + e1), FloatEq(2 * sign + e2)));
    EXPECT_THAT((*got)[4].As<float>(),
                up ? ElementsAre(4, 5) : ElementsAre(3, 4));
    EXPECT_THAT((*got)[5].As<float>(),
                ElementsAre(FloatEq(7 * (up ? e1 : sign)),
                            FloatEq(9 * (up ? e2 : 2 * sign))));
  }
}

// Each branch of the first If leads to another rank of what is reduced later.
TEST_F(LoadedStagesTest, BranchesMayDifferInShape) {
  auto model = LoadText(
      "(float[4] x, bool c, bool d) => (float y) <int64[2] s = {2, 2}, "
      "float two = {2}> { a = If (c) <"
      "then_branch = t () => (float[4] p) { p = Neg(x) }, "
      "else_branch = e () => (float[2, 2] q) { q = Reshape(x, s) }> "
      "b = If (d) <then_branch = t2 () => (float[N] p2) { p2 = Mul(a, two) }, "
      "else_branch = e2 () => (float[N] q2) { q2 = Identity(a) }> "
      "y = ReduceSum <keepdims = 0> (b) }");
  ASSERT_NE(model, nullptr);
  const Sent x = Sent::Of<float>({1, 2, 3, 4});
  for (const char c : {0, 1}) {
    for (const char d : {0, 1}) {
      EXPECT_THAT(
          One<float>(*model, {x, Sent::Of<char>({c}), Sent::Of<char>({d})}),
          ElementsAre((c ? -10.0F : 10.0F) * (d ? 2 : 1)));
    }
  }
}

// Two calls of one function decide apart.
TEST_F(LoadedStagesTest, CallsOfAFunctionDecideApart) {
  auto model = Load(
      Store(onnx_import::ModelFromText(
                "<ir_version: 8, opset_import: [\"\" : 17, \"own\" : 1]> "
                "agraph (float[3] x, float[3] z) => (float[N] y, float[M] w) "
                "{ y = own.positive(x) w = own.positive(z) } "
                "<domain: \"own\", opset_import: [\"\" : 17]> "
                "positive (a) => (b) { n = Neg(a) k = Greater(a, n) "
                "b = Compress(a, k) }")
                .SerializeAsString()));
  ASSERT_TRUE(model.ok()) << model.status();
  auto got =
      Ask(**model, {Sent::Of<float>({1, -2, 3}), Sent::Of<float>({-4, 5, -6})});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT((*got)[0].As<float>(), ElementsAre(1, 3));
  EXPECT_THAT((*got)[1].As<float>(), ElementsAre(5));
}

TEST_F(LoadedStagesTest, ALoopRunsAsOftenAsAnInputSays) {
  auto model = LoadText(
      "(float[2] x, int64 n) => (float[2] y, float[N, 2] all) {"
      "y, all = Loop (n, , x) <body = b (int64 i, bool go, float[2] s) => "
      "(bool next, float[2] t, float[2] row) "
      "{ next = Identity(go) t = Add(s, s) row = Identity(t) }> }");
  ASSERT_NE(model, nullptr);
  const Sent x = Sent::Of<float>({1, 3});
  auto three = Ask(*model, {x, Sent::Of<int64_t>({3})});
  ASSERT_TRUE(three.ok()) << three.status();
  EXPECT_THAT((*three)[0].As<float>(), ElementsAre(8, 24));
  EXPECT_THAT((*three)[1].As<float>(), ElementsAre(2, 6, 4, 12, 8, 24));
  for (const int64_t none : {0, -5}) {
    auto never = Ask(*model, {x, Sent::Of<int64_t>({none})});
    ASSERT_TRUE(never.ok()) << never.status();
    EXPECT_THAT((*never)[0].As<float>(), ElementsAre(1, 3));
    EXPECT_THAT((*never)[1].shape, ElementsAre(0, 2));
  }
}

TEST_F(LoadedStagesTest, AnEndlessLoopIsAnErrorOfItsRequest) {
  auto model = LoadText(kLoop);
  ASSERT_NE(model, nullptr);
  // Zeros never reach the limit.
  const absl::Status endless =
      Ask(*model, {Sent::Of<float>({0, 0}), Sent::Of<float>({1})}).status();
  EXPECT_EQ(endless.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(endless.message(),
              HasSubstr("Loop 'y': the loop goes on after 10000 iterations"));
  EXPECT_TRUE(
      Ask(*model, {Sent::Of<float>({1, 1}), Sent::Of<float>({1})}).ok());
}

// An If in a loop, and a loop in a loop.
constexpr char kNested[] = R"((int64 n) => (int64 y)
  <int64 one = {1}, int64 two = {2}, int64 three = {3}, int64 zero = {0},
   bool start = {1}> {
    steps = Sub(n, n)
    last, y = Loop (_, start, n, steps) <body = b (int64 i, bool go, int64 s,
        int64 c) => (bool next, int64 t, int64 d) {
        half = Div(s, two)
        twice = Mul(half, two)
        even = Equal(twice, s)
        t = If (even) <
          then_branch = t () => (int64 p) { p = Identity(half) },
          else_branch = e () => (int64 q) {
            z = Sub(s, s)
            k, q0 = Loop (_, start, z, one) <body = w (int64 j, bool on,
                int64 u, int64 v) => (bool more, int64 u1, int64 v1) {
                u1 = Add(u, one)
                v1 = Add(v, s)
                more = Less(u1, three)
              }>
            q = Identity(q0)
          }>
        d = Add(c, one)
        next = Greater(t, one)
      }>
  })";

TEST_F(LoadedStagesTest, LoopsAndBranchesNest) {
  auto model = LoadText(kNested);
  ASSERT_NE(model, nullptr);
  for (const int64_t n : {2, 7, 27}) {
    int64_t steps = 0;
    for (int64_t s = n; s > 1; ++steps) s = s % 2 == 0 ? s / 2 : 3 * s + 1;
    EXPECT_THAT(One<int64_t>(*model, {Sent::Of<int64_t>({n})}),
                ElementsAre(steps))
        << n;
  }
  EXPECT_EQ(answer_.compiled, 0u);
}

TEST_F(LoadedStagesTest, NonZeroHasTheTrueNumberOfRows) {
  auto model = LoadText(R"((float[2, 3] x) => (int64[2, N] p, float[N] v) {
      h = Add(x, x)
      p = NonZero(h)
      t = Transpose(p)
      v = GatherND(h, t)
    })");
  ASSERT_NE(model, nullptr);
  EXPECT_THAT(model->outputs()[0].shape(), ElementsAre(-1, -1));
  EXPECT_EQ(model->outputs()[0].variable(1).maximum(), 6);
  auto some = Ask(*model, {Sent::Of<float>({0, 2, 0, 3, 0, 4})});
  ASSERT_TRUE(some.ok()) << some.status();
  EXPECT_THAT((*some)[0].shape, ElementsAre(2, 3));
  EXPECT_THAT((*some)[0].As<int64_t>(), ElementsAre(0, 1, 1, 1, 0, 2));
  EXPECT_THAT((*some)[1].As<float>(), ElementsAre(4, 6, 8));
  EXPECT_EQ(answer_.compiled, 1u);
  ASSERT_TRUE(Ask(*model, {Sent::Of<float>({1, 0, 1, 0, 1, 0})}).ok());
  EXPECT_EQ(answer_.compiled, 0u) << "three rows were seen before";
  auto none = Ask(*model, {Sent::Of<float>({0, 0, 0, 0, 0, 0})});
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_THAT((*none)[0].shape, ElementsAre(2, 0));
  EXPECT_THAT((*none)[1].As<float>(), IsEmpty());
}

TEST_F(LoadedStagesTest, CompressAndUniqueReadValuesAfterTheHost) {
  auto model = LoadText(R"((float[4] x, float[4] w)
    => (float[N] some, float[M] kinds, int64[4] which) {
      h = Mul(x, x)
      c = Greater(w, x)
      some = Compress(h, c)
      kinds, first, which, counts = Unique(h)
    })");
  ASSERT_NE(model, nullptr);
  auto got = Ask(
      *model, {Sent::Of<float>({3, -1, 1, 2}), Sent::Of<float>({4, -2, 5, 1})});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT((*got)[0].As<float>(), ElementsAre(9, 1));
  EXPECT_THAT((*got)[1].As<float>(), ElementsAre(1, 4, 9));
  EXPECT_THAT((*got)[2].As<int64_t>(), ElementsAre(2, 0, 0, 1));
  EXPECT_THAT(Ask(*model, {Sent::Of<float>({NAN, 0, 0, 0}),
                           Sent::Of<float>({0, 0, 0, 0})})
                  .status()
                  .message(),
              HasSubstr("Unique 'kinds': the tensor has a NaN"));
}

TEST_F(LoadedStagesTest, ManyNumbersOfRowsKeepFewPrograms) {
  auto model = LoadText(
      "(float[40] x) => (float[N] y) <int64[2] all = {-1, 1}, "
      "int64[1] flat = {-1}> { p = NonZero(x) q = Reshape(p, flat) "
      "v = Gather(x, q) w = Reshape(v, all) s = Softmax <axis = 0> (w) "
      "y = Reshape(s, flat) }",
      2);
  ASSERT_NE(model, nullptr);
  for (int round = 0; round < 2; ++round) {
    for (size_t rows = 1; rows <= 40; ++rows) {
      std::vector<float> x(40, 0);
      std::fill(x.begin(), x.begin() + static_cast<int64_t>(rows), 1.0F);
      const auto y = One<float>(*model, {Sent::Of<float>(x)});
      ASSERT_EQ(y.size(), rows);
      EXPECT_NEAR(y[0], 1.0F / static_cast<float>(rows), 1e-6);
    }
  }
}

// A head like that of an SSD: scores of anchors, suppression, the best boxes.
constexpr char kDetector[] = R"((float[1, 6, 4] features)
  => (float[N, 4] boxes, float[N] scores, int64[N] labels)
  <float[4, 4] to_box = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1},
   float[4, 2] to_score = {0.1, 0, 0, 0.1, 0.2, 0, 0, 0.2},
   int64 most = {3}, float overlap = {0.4}, float low = {0.7},
   int64[1] two = {2}, int64[1] one = {1}, int64[1] zero = {0},
   int64[1] three = {3}, int64[1] top = {4}, int64[1] flat = {-1},
   int64[2] rows = {-1, 4}> {
    b = MatMul(features, to_box)
    l = MatMul(features, to_score)
    p = Sigmoid(l)
    s = Transpose <perm = [0, 2, 1]> (p)
    chosen = NonMaxSuppression(b, s, most, overlap, low)
    label2 = Slice(chosen, one, two, one)
    label = Reshape(label2, flat)
    anchor2 = Slice(chosen, two, three, one)
    anchor = Reshape(anchor2, flat)
    all = Reshape(b, rows)
    found = Gather(all, anchor)
    zeros = Slice(chosen, zero, one, one)
    places = Concat <axis = 1> (zeros, label2, anchor2)
    score = GatherND(s, places)
    count = Shape(score)
    both = Concat <axis = 0> (count, top)
    k = ReduceMin <keepdims = 1> (both)
    scores, order = TopK(score, k)
    boxes = Gather(found, order)
    labels = Gather(label, order)
  })";

struct Detection {
  float score;
  int64_t label;
  size_t anchor;
};

// Computes the detector with plain loops.
std::vector<Detection> Detect(const std::vector<float>& x) {
  const auto box = [&](size_t i, size_t k) { return x[i * 4 + k]; };
  const auto score = [&](size_t i, size_t label) {
    const float logit = 0.1F * box(i, label) + 0.2F * box(i, 2 + label);
    return 1 / (1 + std::exp(-logit));
  };
  const auto overlap = [&](size_t a, size_t b) {
    const float h =
        std::min(box(a, 2), box(b, 2)) - std::max(box(a, 0), box(b, 0));
    const float w =
        std::min(box(a, 3), box(b, 3)) - std::max(box(a, 1), box(b, 1));
    const auto area = [&](size_t i) {
      return (box(i, 2) - box(i, 0)) * (box(i, 3) - box(i, 1));
    };
    if (h <= 0 || w <= 0) return 0.0F;
    return h * w / (area(a) + area(b) - h * w);
  };
  std::vector<Detection> found;
  for (size_t label = 0; label < 2; ++label) {
    std::vector<size_t> order = {0, 1, 2, 3, 4, 5}, kept;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return score(a, label) > score(b, label);
    });
    for (size_t i : order) {
      if (kept.size() == 3 || score(i, label) <= 0.7F) continue;
      if (std::none_of(kept.begin(), kept.end(),
                       [&](size_t k) { return overlap(i, k) > 0.4F; })) {
        kept.push_back(i);
        found.push_back({score(i, label), static_cast<int64_t>(label), i});
      }
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](auto& a, auto& b) { return a.score > b.score; });
  if (found.size() > 4) found.resize(4);
  return found;
}

TEST_F(LoadedStagesTest, ADetectorAnswersWithTheBoxesItFound) {
  auto model = LoadText(kDetector);
  ASSERT_NE(model, nullptr);
  std::mt19937 random(5);
  std::uniform_real_distribution<float> corner(-6, 5), side(0.5, 4);
  size_t least = 9, most = 0;
  for (int round = 0; round < 30; ++round) {
    std::vector<float> x;
    for (int anchor = 0; anchor < 6; ++anchor) {
      const float top = corner(random), left = corner(random);
      x.insert(x.end(), {top, left, top + side(random), left + side(random)});
    }
    const std::vector<Detection> expected = Detect(x);
    auto got = Ask(*model, {Sent::Of<float>(x)});
    ASSERT_TRUE(got.ok()) << got.status();
    const auto boxes = (*got)[0].As<float>();
    const auto scores = (*got)[1].As<float>();
    const auto labels = (*got)[2].As<int64_t>();
    ASSERT_EQ(scores.size(), expected.size());
    EXPECT_THAT((*got)[0].shape,
                ElementsAre(static_cast<int64_t>(expected.size()), 4));
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(scores[i], expected[i].score, 1e-5);
      EXPECT_EQ(labels[i], expected[i].label);
      for (size_t k = 0; k < 4; ++k) {
        EXPECT_EQ(boxes[i * 4 + k], x[expected[i].anchor * 4 + k]);
      }
    }
    least = std::min(least, expected.size());
    most = std::max(most, expected.size());
  }
  EXPECT_LT(least, most) << "all requests found as many boxes";
  // No box is above the lowest score.
  auto none = Ask(*model, {Sent::Of<float>(std::vector<float>(24, -9))});
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_THAT((*none)[0].shape, ElementsAre(0, 4));
  EXPECT_THAT((*none)[1].shape, ElementsAre(0));
}

TEST_F(LoadedStagesTest, RefusalsNameTheNode) {
  EXPECT_THAT(Refusal("(float[2] x, bool c) => (float[N] y) { y = If (c) <"
                      "then_branch = t () => (float[2] a) { a = Neg(x) }, "
                      "else_branch = e () => (int64[2] b) "
                      "{ b = Cast <to = 7> (x) }> }"),
              HasSubstr("If 'y': output 0 is FLOAT in one branch and INT64"));
  EXPECT_THAT(Refusal("(float[2] x, bool c) => (float[N] y) "
                      "<int64[2] s = {1, 2}> { y = If (c) <"
                      "then_branch = t () => (float[2] a) { a = Neg(x) }, "
                      "else_branch = e () => (float[1, 2] b) "
                      "{ b = Reshape(x, s) }> }"),
              HasSubstr("If 'y': output 'y' has 1 or 2 dimensions"));
  EXPECT_THAT(Refusal("(float[2] x, int64 n) => (float[N] y) "
                      "{ y = Loop (n, , x) <body = b (int64 i, bool go, "
                      "float[N] s) => (bool next, float[M] t) { "
                      "next = Identity(go) t = Concat <axis = 0> (s, s) }> }"),
              HasSubstr("Loop 'y': carried value 0 is [2] before an iteration "
                        "and [4] after it"));
  EXPECT_THAT(Refusal("(float[2] x, int64 n) => (float[N] y) "
                      "{ y = Loop (n, , x) <body = b (int64 i, bool go, "
                      "float[2] s) => (bool next, float[2] t) { "
                      "next = Identity(go) t = Cast <to = 7> (s) }> }"),
              HasSubstr("carried value 0 is float32, and the body makes "
                        "int64"));
  EXPECT_THAT(Refusal("(float[2] x, int64 n) => (float[2] y) "
                      "{ y = Loop (n, , x) <body = b (int64 i, bool go, "
                      "float[2] s) => (bool next, float[2] t) { "
                      "next = Identity(go) r = RandomNormalLike(s) "
                      "t = Add(s, r) }> }"),
              HasSubstr("RandomNormalLike 'r': random numbers would be the "
                        "same in every iteration"));
  EXPECT_THAT(Refusal("(float[9000, 9000] x) => (int64[2, N] y) "
                      "{ y = NonZero(x) }"),
              HasSubstr("NonZero 'y': the tensor has 81000000 elements"));
}

TEST_F(LoadedStagesTest, ALoopMayGrowAFewTimes) {
  auto model = LoadText(
      "(float[2] x, float limit) => (float[N] y) <int64 most = {4}, "
      "bool start = {1}> { y = Loop (most, start, x) <body = b (int64 i, "
      "bool go, float[N] s) => (bool next, float[M] t) { "
      "t = Concat <axis = 0> (s, x) n = ReduceSum <keepdims = 0> (t) "
      "next = Less(n, limit) }> }");
  ASSERT_NE(model, nullptr);
  EXPECT_THAT(
      One<float>(*model, {Sent::Of<float>({1, 2}), Sent::Of<float>({7})}),
      ElementsAre(1, 2, 1, 2, 1, 2));
  EXPECT_EQ(
      One<float>(*model, {Sent::Of<float>({1, 2}), Sent::Of<float>({1000})})
          .size(),
      10u);
}

TEST_F(LoadedStagesTest, JobsRefuseComputedConditionsByName) {
  v1::JobSpec job = DigitsJob();
  *job.mutable_model() = Model(kIf);
  job.mutable_data()->clear_scaling();
  const auto plan = session_->PlanTraining(job, Digits());
  EXPECT_THAT(plan.status().message(),
              HasSubstr("If 'a': the condition depends on the numbers"));
}

}  // namespace
}  // namespace gpupool::engine
