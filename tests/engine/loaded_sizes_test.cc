// Loads models whose dimensions have several sizes, or whose shapes depend on
// numbers of their inputs, and sends them requests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/sha256.h"
#include "tests/engine/import/onnx/model_text.h"
#include "tests/engine/session_fixture.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// Embeddings that attend to each other where the mask is 1.
constexpr char kEncoder[] = R"((int64[N, T] ids, float[N, T] mask)
  => (float[N, T, D] y)
  <float[5, 2] table = {0.1, -0.4, 0.9, 0.3, -0.7, 0.2, 0.5, 0.8, -0.2, 0.6},
   float[1] big = {10000}, float[1] unit = {1}, int64[1] one = {1}> {
    x = Gather(table, ids)
    xt = Transpose <perm = [0, 2, 1]> (x)
    s = MatMul(x, xt)
    m = Unsqueeze(mask, one)
    d = Sub(m, unit)
    b = Mul(d, big)
    t = Add(s, b)
    p = Softmax <axis = -1> (t)
    y = MatMul(p, x)
  })";

class LoadedSizesTest : public SessionFixture {
 protected:
  v1::ModelSpec Model(const std::string& graph) {
    const std::string bytes =
        onnx_import::ModelOfGraph(graph).SerializeAsString();
    v1::ModelSpec spec;
    spec.mutable_onnx()->set_sha256(Sha256Hex(bytes));
    std::ofstream(blob_dir_ + "/" + spec.onnx().sha256(), std::ios::binary)
        << bytes;
    return spec;
  }

  v1::ModelSpec Encoder(const std::vector<int64_t>& listed) {
    v1::ModelSpec spec = Model(kEncoder);
    auto& sizes = (*spec.mutable_onnx()->mutable_served_dimensions())["T"];
    sizes.mutable_sizes()->Add(listed.begin(), listed.end());
    if (listed.empty()) {
      sizes.set_minimum(1);
      sizes.set_maximum(12);
    }
    return spec;
  }

  // Returns null if importing or loading fails.
  std::unique_ptr<ServedModel> Load(const v1::ModelSpec& spec,
                                    uint32_t max_programs = 16) {
    const ServingLimits limits{.max_batch_size = 4,
                               .max_programs = max_programs};
    auto imported = session_->ImportModel(spec, "", limits);
    EXPECT_TRUE(imported.ok()) << imported.status();
    if (!imported.ok()) return nullptr;
    planned_ = imported->plan.inference().peak();
    auto model =
        session_->LoadModel({.version_id = 1,
                             .name = absl::StrCat("encoder/", ++loads_),
                             .manifest_sha256 = imported->manifest_sha256,
                             .max_batch_size = 4,
                             .limit_bytes = planned_,
                             .max_programs = max_programs});
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? *std::move(model) : nullptr;
  }

  struct Texts {
    uint32_t rows = 1;
    int64_t size = 1;
    std::vector<int64_t> ids;
    std::vector<float> mask;
  };

  Texts RandomTexts(int64_t size) {
    Texts texts{.rows = static_cast<uint32_t>(1 + random_() % 4), .size = size};
    for (int64_t i = 0; i < texts.rows * size; ++i) {
      texts.ids.push_back(static_cast<int64_t>(random_() % 5));
      texts.mask.push_back(i % size == 0 || random_() % 4 > 0 ? 1 : 0);
    }
    return texts;
  }

  static Texts PadTo(const Texts& texts, int64_t size) {
    Texts padded{.rows = texts.rows, .size = size};
    for (uint32_t row = 0; row < texts.rows; ++row) {
      for (int64_t i = 0; i < size; ++i) {
        const bool real = i < texts.size;
        const size_t at = static_cast<size_t>(row * texts.size + i);
        padded.ids.push_back(real ? texts.ids[at] : 0);
        padded.mask.push_back(real ? texts.mask[at] : 0);
      }
    }
    return padded;
  }

  absl::StatusOr<std::vector<float>> Ask(ServedModel& model,
                                         const Texts& texts) {
    const absl::Span<const std::byte> inputs[] = {
        {reinterpret_cast<const std::byte*>(texts.ids.data()),
         texts.ids.size() * 8},
        {reinterpret_cast<const std::byte*>(texts.mask.data()),
         texts.mask.size() * 4}};
    std::vector<float> y(texts.ids.size() * 2);
    const absl::Span<std::byte> output(reinterpret_cast<std::byte*>(y.data()),
                                       y.size() * 4);
    answer_ = {};
    const absl::Status status =
        model.Infer({.rows = texts.rows,
                     .sizes = absl::MakeConstSpan(&texts.size, 1),
                     .inputs = inputs,
                     .outputs = absl::MakeConstSpan(&output, 1)},
                    &answer_);
    if (!status.ok()) return status;
    return y;
  }

  uint64_t planned_ = 0;
  int loads_ = 0;  // memory is counted by name
  InferenceAnswer answer_;
  std::mt19937 random_{20};
};

TEST_F(LoadedSizesTest, EverySizeOfARangeAnswersAsAModelOfThatSizeAlone) {
  auto model = Load(Encoder({}), 3);
  ASSERT_NE(model, nullptr);
  EXPECT_THAT(model->inputs()[0].shape(), ElementsAre(-1, -1));
  EXPECT_THAT(model->outputs()[0].shape(), ElementsAre(-1, -1, 2));
  EXPECT_THAT(model->dimensions(), ElementsAre("T"));
  uint32_t compiled = 0;
  uint32_t evicted = 0;
  for (int round = 0; round < 12; ++round) {
    const Texts texts = RandomTexts(1 + static_cast<int64_t>(random_() % 12));
    const auto y = Ask(*model, texts);
    ASSERT_TRUE(y.ok()) << y.status();
    EXPECT_THAT(answer_.shapes,
                ElementsAre(ElementsAre(texts.rows, texts.size, 2)));
    compiled += answer_.compiled;
    evicted += answer_.evicted;
    v1::ModelSpec fixed = Model(kEncoder);
    (*fixed.mutable_onnx()->mutable_dimensions())["T"] = texts.size;
    const auto plan = session_->ImportModel(fixed, "", {.max_batch_size = 4});
    ASSERT_TRUE(plan.ok()) << plan.status();
    auto alone = session_->LoadModel({.name = "fixed/1",
                                      .manifest_sha256 = plan->manifest_sha256,
                                      .max_batch_size = 4});
    ASSERT_TRUE(alone.ok());
    Texts same = texts;
    const int64_t size = std::exchange(same.size, 0);
    const absl::Span<const std::byte> inputs[] = {
        {reinterpret_cast<const std::byte*>(same.ids.data()),
         same.ids.size() * 8},
        {reinterpret_cast<const std::byte*>(same.mask.data()),
         same.mask.size() * 4}};
    std::vector<float> expected(y->size());
    const absl::Span<std::byte> output(
        reinterpret_cast<std::byte*>(expected.data()), expected.size() * 4);
    ASSERT_TRUE((*alone)
                    ->Infer({.rows = same.rows,
                             .inputs = inputs,
                             .outputs = absl::MakeConstSpan(&output, 1)},
                            nullptr)
                    .ok())
        << size;
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR((*y)[i], expected[i], 1e-5) << "size " << size;
    }
    EXPECT_LE(model->measured_bytes(), planned_);
  }
  EXPECT_GT(compiled, 0u);
  EXPECT_GT(evicted, 0u);
}

TEST_F(LoadedSizesTest, AMaskedRequestThatIsFilledUpHasTheSameResult) {
  auto exact = Load(Encoder({}));
  auto listed = Load(Encoder({4, 12}));
  ASSERT_TRUE(exact != nullptr && listed != nullptr);
  for (int round = 0; round < 20; ++round) {
    const Texts texts = RandomTexts(1 + static_cast<int64_t>(random_() % 12));
    const Texts padded = PadTo(texts, texts.size <= 4 ? 4 : 12);
    const auto expected = Ask(*exact, texts);
    const auto y = Ask(*listed, padded);
    ASSERT_TRUE(expected.ok() && y.ok()) << y.status();
    for (uint32_t row = 0; row < texts.rows; ++row) {
      for (int64_t i = 0; i < texts.size * 2; ++i) {
        EXPECT_NEAR((*y)[static_cast<size_t>(row * padded.size * 2 + i)],
                    (*expected)[static_cast<size_t>(row * texts.size * 2 + i)],
                    1e-5)
            << "size " << texts.size << " row " << row;
      }
    }
  }
}

TEST_F(LoadedSizesTest, AProgramIsMadeOncePerSize) {
  auto model = Load(Encoder({}));
  ASSERT_NE(model, nullptr);
  const Texts texts = RandomTexts(5);
  ASSERT_TRUE(Ask(*model, texts).ok());
  EXPECT_EQ(answer_.compiled, 1u);
  ASSERT_TRUE(Ask(*model, texts).ok());
  EXPECT_EQ(answer_.compiled, 0u);
}

TEST_F(LoadedSizesTest, ListedSizesAreThereFromTheStart) {
  auto model = Load(Encoder({4, 12}));
  ASSERT_NE(model, nullptr);
  for (int64_t size : {4, 12}) {
    Texts texts = PadTo(RandomTexts(3), size);
    while (texts.rows != 4) texts = PadTo(RandomTexts(3), size);
    ASSERT_TRUE(Ask(*model, texts).ok());
    EXPECT_EQ(answer_.compiled, 0u) << size;
  }
}

TEST_F(LoadedSizesTest, OtherSizesAreRefused) {
  auto model = Load(Encoder({4, 12}));
  ASSERT_NE(model, nullptr);
  EXPECT_THAT(Ask(*model, RandomTexts(5)).status().message(),
              HasSubstr("dimension 'T' is 5; encoder/1 takes 4, 12"));
  Texts texts = RandomTexts(4);
  texts.size = 12;
  EXPECT_THAT(Ask(*model, texts).status().message(), HasSubstr("input 'ids'"));
}

TEST_F(LoadedSizesTest, TrainingTakesOneSize) {
  v1::JobSpec job = DigitsJob();
  *job.mutable_model() = Encoder({4});
  EXPECT_THAT(
      session_->PlanTraining(job, Digits()).status().message(),
      HasSubstr("dimension 'T' has several sizes, 4, which only "
                "serving can do; give one, as in `dimensions: {T: 4}`"));
}

TEST_F(LoadedSizesTest, OnlyNewModelsMustHaveTheNamesOfTheirOptions) {
  v1::JobSpec job = DigitsJob();
  *job.mutable_model() = Encoder({4});
  job.mutable_model()->mutable_onnx()->clear_served_dimensions();
  auto& sizes = *job.mutable_model()->mutable_onnx()->mutable_dimensions();
  sizes["T"] = 4;
  sizes["length"] = 4;
  const v1::ModelSpec& spec = job.model();
  for (const absl::Status& refused :
       {session_->PlanTraining(job, Digits()).status(),
        session_->PlanInference(spec, {.max_batch_size = 4}).status(),
        session_->ImportModel(spec, "", {.max_batch_size = 4}).status()}) {
    EXPECT_THAT(refused.message(), HasSubstr("'length'"));
  }
  const absl::Status stored =
      session_->PlanTraining(job, Digits(), v1::Dataset(), JobOrigin::kStored)
          .status();
  EXPECT_THAT(stored.message(), Not(HasSubstr("'length'")));
}

// Tokens [N, S, 2] that attend to themselves and to those of a cache [N, P, 2].
// The mask has a number for each.
constexpr char kCached[] = R"((float[N, S, 2] x, float[N, P, 2] past,
                               float[N, L] mask)
  => (float[N, S, 2] y, float[N, L, 2] present)
  <int64[1] one = {1}> {
    present = Concat <axis = 1> (past, x)
    keys = Transpose <perm = [0, 2, 1]> (present)
    s = MatMul(x, keys)
    m = Unsqueeze(mask, one)
    t = Mul(s, m)
    p = Softmax <axis = -1> (t)
    y = MatMul(p, present)
  })";

class LoadedCacheTest : public LoadedSizesTest {
 protected:
  v1::ModelSpec Cached() {
    v1::ModelSpec spec = Model(kCached);
    auto& sizes = *spec.mutable_onnx()->mutable_served_dimensions();
    sizes["P"].set_maximum(9);
    sizes["S"].set_minimum(1);
    sizes["S"].set_maximum(4);
    (*spec.mutable_onnx()->mutable_derived_dimensions())["L"] = "P + S";
    return spec;
  }

  // Asks for one row. `tokens` and `past` have two numbers each.
  absl::Status Ask(ServedModel& model, const std::vector<float>& tokens,
                   const std::vector<float>& past) {
    const auto bytes = [](const std::vector<float>& numbers) {
      return absl::MakeConstSpan(
          reinterpret_cast<const std::byte*>(numbers.data()),
          numbers.size() * sizeof(float));
    };
    const auto writable = [](std::vector<float>& numbers) {
      return absl::MakeSpan(reinterpret_cast<std::byte*>(numbers.data()),
                            numbers.size() * sizeof(float));
    };
    const int64_t sizes[] = {static_cast<int64_t>(past.size() / 2),
                             static_cast<int64_t>(tokens.size() / 2)};
    const std::vector<float> mask(
        static_cast<size_t>(mask_length_ >= 0 ? mask_length_
                                              : sizes[0] + sizes[1]),
        0.7f);
    const absl::Span<const std::byte> inputs[] = {bytes(tokens), bytes(past),
                                                  bytes(mask)};
    y_.assign(tokens.size(), 0);
    present_.assign(tokens.size() + past.size(), 0);
    const absl::Span<std::byte> outputs[] = {writable(y_), writable(present_)};
    answer_ = {};
    return model.Infer(
        {.rows = 1, .sizes = sizes, .inputs = inputs, .outputs = outputs},
        &answer_);
  }

  int64_t mask_length_ = -1;  // -1: as long as it must be
  std::vector<float> y_;
  std::vector<float> present_;
};

TEST_F(LoadedCacheTest, TokensOneAtATimeGiveTheCacheOfAllAtOnce) {
  auto model = Load(Cached());
  ASSERT_NE(model, nullptr);
  EXPECT_THAT(model->dimensions(), ElementsAre("P", "S"));
  EXPECT_EQ(model->inputs()[2].variable(0).size(), "P + S");
  EXPECT_EQ(model->inputs()[2].variable(0).maximum(), 13);
  EXPECT_EQ(model->inputs()[1].variable(0).minimum(), 0);
  EXPECT_EQ(model->outputs()[1].variable(0).size(), "P + S");
  const std::vector<float> tokens = {0.1f,  -0.4f, 0.9f, 0.3f,
                                     -0.7f, 0.2f,  0.5f, 0.8f};
  std::vector<float> cache;
  for (size_t i = 0; i < tokens.size(); i += 2) {
    const absl::Status status = Ask(*model, {tokens[i], tokens[i + 1]}, cache);
    ASSERT_TRUE(status.ok()) << status;
    cache = present_;
  }
  const std::vector<float> last = y_;
  EXPECT_EQ(cache, tokens);
  ASSERT_TRUE(Ask(*model, tokens, {}).ok());
  EXPECT_EQ(present_, tokens);
  EXPECT_THAT(answer_.shapes,
              ElementsAre(ElementsAre(1, 4, 2), ElementsAre(1, 4, 2)));
  EXPECT_NEAR(y_[6], last[0], 1e-6);
  EXPECT_NEAR(y_[7], last[1], 1e-6);
  EXPECT_LE(model->measured_bytes(), planned_);
}

TEST_F(LoadedCacheTest, AnInputOfAnotherSizeThanFollowsIsRefused) {
  auto model = Load(Cached());
  ASSERT_NE(model, nullptr);
  mask_length_ = 4;
  EXPECT_THAT(std::string(Ask(*model, {1, 2}, {3, 4}).message()),
              HasSubstr("input 'mask' has 16 bytes"));
}

TEST_F(LoadedCacheTest, ANegativeSizeIsRefusedAtTheRequest) {
  v1::ModelSpec spec = Model(R"((float[P] x, float[S] z, float[R] rest)
      => (float[R] y) { y = Relu(rest) })");
  for (const char* name : {"P", "S"}) {
    auto& sizes = (*spec.mutable_onnx()->mutable_served_dimensions())[name];
    sizes.set_minimum(1);
    sizes.set_maximum(5);
    spec.mutable_onnx()->add_unbatched_inputs(name[0] == 'P' ? "x" : "z");
  }
  (*spec.mutable_onnx()->mutable_derived_dimensions())["R"] = "P - S";
  auto rest = Load(spec);
  ASSERT_NE(rest, nullptr);
  const int64_t sizes[] = {2, 3};
  const std::vector<std::byte> bytes(64);
  const absl::Span<const std::byte> all(bytes);
  const absl::Span<const std::byte> inputs[] = {
      all.first(8), all.first(12), {}};
  const absl::Span<std::byte> output;
  EXPECT_THAT(
      std::string(rest->Infer({.rows = 1,
                               .sizes = sizes,
                               .inputs = inputs,
                               .outputs = absl::MakeConstSpan(&output, 1)},
                              nullptr)
                      .message()),
      HasSubstr("the size 'P - S' is -1 for P=2, S=3"));
}

class LoadedBoundTest : public LoadedSizesTest {
 protected:
  // Returns a model that gives the numbers of `x`, doubled, in the shape
  // `shape`.
  v1::ModelSpec Reshape() {
    return Model(R"((float[6] x, int64[2] shape) => (float[A, B] y)
        <float[1] two = {2}> {
          r = Reshape(x, shape)
          y = Mul(r, two)
        })");
  }
  absl::Status Ask(ServedModel& model, std::vector<int64_t> shape) {
    const std::vector<float> x = {1, 2, 3, 4, 5, 6};
    const absl::Span<const std::byte> inputs[] = {
        {reinterpret_cast<const std::byte*>(x.data()), 24},
        {reinterpret_cast<const std::byte*>(shape.data()), 16}};
    y_.assign(6, 0);
    const absl::Span<std::byte> output(reinterpret_cast<std::byte*>(y_.data()),
                                       24);
    answer_ = {};
    return model.Infer({.rows = 1,
                        .inputs = inputs,
                        .outputs = absl::MakeConstSpan(&output, 1)},
                       &answer_);
  }
  std::vector<float> y_;
};

TEST_F(LoadedBoundTest, WithoutNumbersImportNamesTheInput) {
  const auto imported =
      session_->ImportModel(Reshape(), "", {.max_batch_size = 4});
  EXPECT_EQ(imported.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(imported.status().message(), HasSubstr("'shape'"));
  EXPECT_THAT(imported.status().message(), HasSubstr("--bound"));
}

TEST_F(LoadedBoundTest, EachValueHasAProgram) {
  v1::ModelSpec spec = Reshape();
  auto& numbers = (*spec.mutable_onnx()->mutable_bound_inputs())["shape"];
  numbers.add_numbers(2);
  numbers.add_numbers(3);
  auto model = Load(spec, 2);
  ASSERT_NE(model, nullptr);
  ASSERT_EQ(model->inputs().size(), 2u);
  EXPECT_TRUE(model->inputs()[1].bound());
  ASSERT_TRUE(Ask(*model, {2, 3}).ok());
  EXPECT_EQ(answer_.compiled, 0u);
  EXPECT_THAT(answer_.shapes, ElementsAre(ElementsAre(2, 3)));
  const absl::Status status = Ask(*model, {6, 1});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(answer_.compiled, 1u);
  EXPECT_THAT(answer_.shapes, ElementsAre(ElementsAre(6, 1)));
  EXPECT_THAT(y_, ElementsAre(2, 4, 6, 8, 10, 12));
  ASSERT_TRUE(Ask(*model, {3, 2}).ok());
  EXPECT_EQ(answer_.evicted, 1u);
  EXPECT_FALSE(Ask(*model, {4, 2}).ok());
  EXPECT_LE(model->measured_bytes(), planned_);
}

}  // namespace
}  // namespace gpupool::engine
