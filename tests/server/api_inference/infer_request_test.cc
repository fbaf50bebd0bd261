#include "server/api/inference/infer_request.h"

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/api_inference/inference_server.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CountingObserver : public ServingObserver {
 public:
  std::unique_ptr<VersionObserver> Observe(const std::string&, uint64_t,
                                           uint32_t) override {
    return nullptr;
  }
  void RequestUnrouted(absl::StatusCode code) override {
    unrouted.push_back(code);
  }
  std::vector<absl::StatusCode> unrouted;
};

class FinishedRequest : public InferRequest {
 public:
  using InferRequest::InferRequest;
  absl::Status Await() {
    return finished_.WaitForNotificationWithTimeout(kPatience)
               ? status_
               : absl::InternalError("no answer");
  }

 private:
  void Finished(const absl::Status& status) override {
    status_ = status;
    finished_.Notify();
  }
  absl::Status status_;
  absl::Notification finished_;
};

class InferRequestTest : public ::testing::Test {
 protected:
  InferContext Context() {
    return {.serving = &server_.serving,
            .observer = &observer_,
            .bytes_in_flight = &bytes_};
  }
  absl::Status Run(const inference::ModelInferRequest& request) {
    FinishedRequest infer(Context());
    infer.Start(request, &response_, absl::InfiniteFuture());
    return infer.Await();
  }
  uint64_t Failed() {
    return server_.serving.registry()
        .FindById(10)
        ->batcher()
        .statistics()
        .Snapshot()
        .fail.count;
  }

  InferenceServer server_;
  CountingObserver observer_;
  BytesInFlight bytes_{1000};
  inference::ModelInferResponse response_;
};

TEST_F(InferRequestTest, WritesOutputsAndGivesItsBytesBack) {
  EXPECT_TRUE(Run(RawRequest({1, 2})).ok());
  EXPECT_THAT(RawOutput(response_), ElementsAre(2, 4));
  EXPECT_EQ(bytes_.used(), 0u);
}

// Returns a request for the classes of the rows.
inference::ModelInferRequest ClassesRequest(std::vector<float> values,
                                            int64_t classes) {
  inference::ModelInferRequest request = RawRequest(std::move(values));
  auto* const output = request.add_outputs();
  output->set_name("output");
  (*output->mutable_parameters())["classification"].set_int64_param(classes);
  return request;
}

TEST_F(InferRequestTest, AClassificationHasTheLargestElementsOfEachRow) {
  ASSERT_TRUE(Run(ClassesRequest({1, 2, 4, 3}, 1)).ok());
  EXPECT_EQ(response_.outputs(0).datatype(), "BYTES");
  EXPECT_THAT(response_.outputs(0).shape(), ElementsAre(2, 1));
  EXPECT_EQ(response_.raw_output_contents(0), std::string("\12\0\0\0"
                                                          "4.000000:1"
                                                          "\12\0\0\0"
                                                          "8.000000:0",
                                                          28));
}

TEST_F(InferRequestTest, AClassificationHasNoMoreClassesThanThereAre) {
  ASSERT_TRUE(Run(ClassesRequest({1, 2}, 1000)).ok());
  EXPECT_THAT(response_.outputs(0).shape(), ElementsAre(1, 2));
  EXPECT_THAT(response_.raw_output_contents(0),
              AllOf(HasSubstr("4.000000:1"), HasSubstr("2.000000:0")));
}

TEST_F(InferRequestTest, HoldsItsBytesUntilItIsAnswered) {
  server_.worker.Pause();
  {
    const auto request = RawRequest({1, 2});
    FinishedRequest infer(Context());
    infer.Start(request, &response_, absl::InfiniteFuture());
    EXPECT_EQ(bytes_.used(), request.ByteSizeLong());
    server_.worker.Resume();
    EXPECT_TRUE(infer.Await().ok());
  }
  EXPECT_EQ(bytes_.used(), 0u);
}

TEST_F(InferRequestTest, AnAnsweredRequestDoesNotKeepItsVersionLoaded) {
  const auto request = RawRequest({1, 2});
  absl::Notification drained;
  FinishedRequest infer(Context());
  infer.Start(request, &response_, absl::InfiniteFuture());
  ASSERT_TRUE(infer.Await().ok());
  server_.serving.VersionDraining(10, [&] { drained.Notify(); });
  // The client may never read its answer.
  EXPECT_TRUE(drained.WaitForNotificationWithTimeout(kPatience));
  infer.Cancel();
}

TEST_F(InferRequestTest, AnUnroutedRequestIsCountedByTheObserver) {
  auto request = RawRequest({1, 2});
  request.set_model_name("cats");
  EXPECT_TRUE(absl::IsNotFound(Run(request)));
  EXPECT_THAT(observer_.unrouted, ElementsAre(absl::StatusCode::kNotFound));
  EXPECT_EQ(Failed(), 0u);
}

TEST_F(InferRequestTest, ARefusedRequestIsCountedByItsVersion) {
  auto request = RawRequest({1, 2});
  request.mutable_inputs(0)->set_name("pixels");
  EXPECT_TRUE(absl::IsInvalidArgument(Run(request)));
  EXPECT_TRUE(observer_.unrouted.empty());
  EXPECT_EQ(Failed(), 1u);
}

TEST_F(InferRequestTest, TheTimeoutParameterShortensTheWait) {
  server_.worker.Pause();
  FinishedRequest first(Context()), second(Context());
  inference::ModelInferResponse responses[2];
  const auto plain = RawRequest({1, 2});
  first.Start(plain, &responses[0], absl::InfiniteFuture());
  second.Start(plain, &responses[1], absl::InfiniteFuture());
  auto hurried = RawRequest({1, 2});
  (*hurried.mutable_parameters())["timeout"].set_int64_param(20'000);
  const absl::Status status = Run(hurried);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  server_.worker.Resume();
  EXPECT_TRUE(first.Await().ok());
  EXPECT_TRUE(second.Await().ok());
}

class CachedRequestTest : public InferRequestTest {
 protected:
  CachedRequestTest() { server_.serving.SetCaching("digits", true); }
  StatisticsSnapshot Snapshot() {
    return server_.serving.registry()
        .FindById(10)
        ->batcher()
        .statistics()
        .Snapshot();
  }
  // Returns the answer without its id.
  std::string Answer(const inference::ModelInferRequest& request) {
    response_.Clear();
    const absl::Status status = Run(request);
    if (!status.ok()) return status.ToString();
    EXPECT_EQ(response_.id(), request.id());
    response_.clear_id();
    return response_.SerializeAsString();
  }
};

TEST_F(CachedRequestTest, AnEqualRequestIsAnsweredWithoutTheWorker) {
  auto request = RawRequest({1.5, 2, 3, 4});
  request.set_id("first");
  const std::string computed = Answer(request);
  EXPECT_THAT(RawOutput(response_), ElementsAre(3, 4, 6, 8));
  server_.worker.Pause();
  request.set_id("second");
  (*request.mutable_parameters())["timeout"].set_int64_param(1);
  EXPECT_EQ(Answer(request), computed);
  const StatisticsSnapshot snapshot = Snapshot();
  EXPECT_EQ(snapshot.cache_hit.count, 1u);
  EXPECT_EQ(snapshot.cache_miss.count, 1u);
  EXPECT_EQ(snapshot.success.count, 2u);
  EXPECT_EQ(snapshot.queue.count, 1u);
  EXPECT_EQ(snapshot.compute.count, 1u);
  EXPECT_EQ(snapshot.rows, 2u);
  EXPECT_EQ(snapshot.batches, 1u);
  EXPECT_EQ(bytes_.used(), 0u);
}

TEST_F(CachedRequestTest, AnotherNumberOfClassesIsAnotherRequest) {
  const std::string values = Answer(RawRequest({1, 2}));
  const std::string one = Answer(ClassesRequest({1, 2}, 1));
  const std::string two = Answer(ClassesRequest({1, 2}, 2));
  EXPECT_EQ(Snapshot().cache_hit.count, 0u);
  EXPECT_NE(one, two);
  EXPECT_NE(one, values);
  EXPECT_EQ(Answer(ClassesRequest({1, 2}, 1)), one);
  EXPECT_EQ(Snapshot().cache_hit.count, 1u);
}

TEST_F(CachedRequestTest, TypedAndRawContentsOfTheSameNumbersAreEqual) {
  const std::string computed = Answer(RawRequest({1, 2}));
  auto typed = RawRequest({1, 2});
  typed.clear_raw_input_contents();
  for (const float number : {1.0F, 2.0F}) {
    typed.mutable_inputs(0)->mutable_contents()->add_fp32_contents(number);
  }
  EXPECT_EQ(Answer(typed), computed);
  EXPECT_EQ(Snapshot().cache_hit.count, 1u);
}

TEST_F(CachedRequestTest, OtherNumbersAndShapesAreComputed) {
  Answer(RawRequest({1, 2}));
  Answer(RawRequest({1, 3}));
  EXPECT_THAT(RawOutput(response_), ElementsAre(2, 6));
  Answer(RawRequest({1, 2, 1, 2}));
  EXPECT_THAT(RawOutput(response_), ElementsAre(2, 4, 2, 4));
  EXPECT_EQ(Snapshot().cache_hit.count, 0u);
  EXPECT_EQ(Snapshot().cache_miss.count, 3u);
  EXPECT_EQ(server_.cache.usage().answers, 3u);
}

TEST_F(CachedRequestTest, ErrorsAreNotKept) {
  server_.worker.SetRule(
      [](const SlotRequest&) { return absl::InternalError("no"); });
  EXPECT_TRUE(absl::IsInternal(Run(RawRequest({1, 2}))));
  server_.worker.SetRule(FakeWorker::Rule());
  Answer(RawRequest({1, 2}));
  EXPECT_THAT(RawOutput(response_), ElementsAre(2, 4));
  EXPECT_EQ(Snapshot().cache_hit.count, 0u);
  EXPECT_EQ(Snapshot().cache_miss.count, 1u);
}

TEST_F(CachedRequestTest, ARequestOfASequenceGetsNoKeptAnswer) {
  Answer(RawRequest({1, 2}));
  auto request = RawRequest({1, 2});
  (*request.mutable_parameters())["sequence_id"].set_int64_param(7);
  EXPECT_TRUE(absl::IsUnimplemented(Run(request)));
  EXPECT_EQ(Snapshot().cache_hit.count, 0u);
}

TEST_F(CachedRequestTest, AVersionThatIsImportedAnewStartsWithoutAnswers) {
  Answer(RawRequest({1, 2}));
  EXPECT_EQ(server_.cache.usage().answers, 1u);
  absl::Notification drained;
  server_.serving.VersionDraining(10, [&] { drained.Notify(); });
  ASSERT_TRUE(drained.WaitForNotificationWithTimeout(kPatience));
  EXPECT_EQ(server_.cache.usage().answers, 0u);
  server_.serving.VersionReady(MakeModelVersion("digits", 1, 11), "cpu:0");
  Answer(RawRequest({1, 2}));
  EXPECT_EQ(server_.worker.batches().size(), 2u);
}

TEST_F(CachedRequestTest, ModelsThatKeepNoAnswersAreNotLookedUp) {
  server_.serving.SetCaching("digits", false);
  Answer(RawRequest({1, 2}));
  Answer(RawRequest({1, 2}));
  EXPECT_EQ(server_.worker.batches().size(), 2u);
  EXPECT_EQ(server_.cache.usage().answers, 0u);
  EXPECT_EQ(Snapshot().cache_hit.count, 0u);
  EXPECT_EQ(Snapshot().cache_miss.count, 0u);
}

// Requests to models whose input and output have one type.
class WidenedRequestTest : public InferRequestTest {
 protected:
  // Serves a new model. With `padded` its rows have 2 or 4 numbers, and
  // requests are filled up.
  void Serve(v1::DataType type, bool padded = false) {
    model_ = absl::StrCat(v1::DataType_Name(type), padded ? " padded" : "");
    v1::ModelVersion version = MakeModelVersion(model_, 1, ++last_id_);
    v1::Plan& plan = *version.mutable_plan();
    for (v1::TensorSpec* spec :
         {plan.mutable_inputs(0), plan.mutable_outputs(0)}) {
      spec->set_data_type(type);
      if (!padded) continue;
      spec->set_shape(1, -1);
      v1::VariableDimension& dimension = *spec->add_variable();
      dimension.set_axis(1);
      dimension.set_name("n");
      dimension.set_maximum(4);
    }
    if (padded) {
      v1::OnnxModel& onnx = *version.mutable_spec()->mutable_onnx();
      auto& sizes = (*onnx.mutable_served_dimensions())["n"];
      sizes.add_sizes(2);
      sizes.add_sizes(4);
      (*onnx.mutable_padding())["input"] = 9;
    }
    server_.serving.VersionReady(version, "cpu:0");
  }
  template <typename Number>
  inference::ModelInferRequest Request(const std::string& type,
                                       const std::vector<Number>& row) {
    inference::ModelInferRequest request;
    request.set_model_name(model_);
    auto* input = request.add_inputs();
    input->set_name("input");
    input->set_datatype(type);
    input->add_shape(1);
    input->add_shape(static_cast<int64_t>(row.size()));
    request.add_raw_input_contents(row.data(), row.size() * sizeof(Number));
    return request;
  }
  // Returns the doubled numbers.
  template <typename Number>
  std::vector<Number> Doubled(v1::DataType type, const std::vector<Number>& row,
                              bool padded = false) {
    Serve(type, padded);
    response_.Clear();
    const absl::Status status = Run(Request(v1::DataType_Name(type), row));
    EXPECT_TRUE(status.ok()) << status;
    if (!status.ok()) return {};
    EXPECT_EQ(response_.outputs(0).datatype(), v1::DataType_Name(type));
    const std::string& raw = response_.raw_output_contents(0);
    std::vector<Number> numbers(raw.size() / sizeof(Number));
    std::memcpy(numbers.data(), raw.data(), numbers.size() * sizeof(Number));
    return numbers;
  }

 private:
  std::string model_;
  uint64_t last_id_ = 10;  // of "digits"
};

TEST_F(WidenedRequestTest, TypesTravelInTheirOwnWidth) {
  EXPECT_THAT(Doubled<uint16_t>(v1::UINT16, {0, 32767}), ElementsAre(0, 65534));
  EXPECT_THAT(Doubled<int16_t>(v1::INT16, {-16384, 16383}),
              ElementsAre(-32768, 32766));
  EXPECT_THAT(Doubled<uint32_t>(v1::UINT32, {0, 2147483647}),
              ElementsAre(0u, 4294967294u));
  EXPECT_THAT(Doubled<uint64_t>(v1::UINT64, {1, uint64_t{1} << 61}),
              ElementsAre(2u, uint64_t{1} << 62));
}

TEST_F(WidenedRequestTest, RowsAreFilledUpAndCutBack) {
  EXPECT_THAT(Doubled<uint16_t>(v1::UINT16, {1, 32767, 3}, /*padded=*/true),
              ElementsAre(2, 65534, 6));
  EXPECT_THAT(response_.outputs(0).shape(), ElementsAre(1, 3));
  EXPECT_THAT(Doubled<uint32_t>(v1::UINT32, {2147483647}, /*padded=*/true),
              ElementsAre(4294967294u));
  EXPECT_THAT(Doubled<int16_t>(v1::INT16, {-1, 2, -3, 4}, /*padded=*/true),
              ElementsAre(-2, 4, -6, 8));
}

TEST_F(WidenedRequestTest, ResultsOutOfRangeAreTakenModuloTheBits) {
  EXPECT_THAT(Doubled<uint16_t>(v1::UINT16, {32768, 65535}),
              ElementsAre(0, 65534));
  EXPECT_THAT(Doubled<int16_t>(v1::INT16, {16384, -32768}),
              ElementsAre(-32768, 0));
  EXPECT_THAT(Doubled<uint32_t>(v1::UINT32, {2147483648u, 4294967295u}),
              ElementsAre(0u, 4294967294u));
  EXPECT_THAT(Doubled<uint64_t>(v1::UINT64, {INT64_MAX, uint64_t{1} << 62}),
              ElementsAre(UINT64_MAX - 1, uint64_t{1} << 63));
}

TEST_F(WidenedRequestTest, OtherTypesAndUnholdableNumbersAreRefused) {
  Serve(v1::UINT64);
  const absl::Status wide =
      Run(Request<uint64_t>("UINT64", {0, uint64_t{1} << 63}));
  EXPECT_TRUE(absl::IsInvalidArgument(wide)) << wide;
  EXPECT_THAT(std::string(wide.message()),
              HasSubstr("element 1 of input 'input'"));
  const absl::Status other = Run(Request<int64_t>("INT64", {0, 1}));
  EXPECT_TRUE(absl::IsInvalidArgument(other)) << other;
  EXPECT_THAT(
      std::string(other.message()),
      AllOf(HasSubstr("data-type is 'INT64'"), HasSubstr("expects 'UINT64'")));
}

TEST_F(InferRequestTest, AnEnsembleAnswersWithWhatItsStepsCompute) {
  ASSERT_TRUE(server_.serving.ensembles().Define(TwiceSpec()).ok());
  ASSERT_TRUE(Run(TwiceRequest({1, 2, 3, 4})).ok());
  EXPECT_THAT(RawOutput(response_), ElementsAre(4, 8, 12, 16));
  EXPECT_EQ(response_.model_name(), "twice");
  EXPECT_EQ(response_.model_version(), "1");
  ASSERT_EQ(response_.outputs_size(), 1);
  EXPECT_EQ(response_.outputs(0).name(), "y");
  EXPECT_THAT(response_.outputs(0).shape(), ElementsAre(2, 2));
  const auto rows = [&](const char* model) {
    return server_.serving.registry()
        .FindNewest(model)
        ->executor()
        .statistics()
        .Snapshot()
        .rows;
  };
  EXPECT_EQ(rows("twice"), 2u);
  EXPECT_EQ(rows("digits"), 4u) << "both steps count there";
}

TEST_F(InferRequestTest, AnErrorOfAStepNamesTheStep) {
  ASSERT_TRUE(server_.serving.ensembles().Define(TwiceSpec()).ok());
  server_.worker.SetRule([](const SlotRequest&) {
    return absl::InvalidArgumentError("bad index");
  });
  const absl::Status failed = Run(TwiceRequest({1, 2}));
  EXPECT_TRUE(absl::IsInvalidArgument(failed)) << failed;
  EXPECT_THAT(std::string(failed.message()),
              AllOf(HasSubstr("step 1 (model 'digits' version 1)"),
                    HasSubstr("bad index")));
}

TEST_F(InferRequestTest, AnInputThatAnEnsembleDoesNotTakeIsRefused) {
  ASSERT_TRUE(server_.serving.ensembles().Define(TwiceSpec()).ok());
  inference::ModelInferRequest request = TwiceRequest({1, 2});
  request.mutable_inputs(0)->set_name("input");
  const absl::Status refused = Run(request);
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("'twice' version 1"));
}

}  // namespace
}  // namespace gpupool::server
