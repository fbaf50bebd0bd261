// Decisions that are undone before they are carried out.
#include "server/control/action_runner.h"

#include "absl/synchronization/notification.h"
#include "server/control/jobs/admission.h"
#include "server/control/models/model_requests.h"
#include "tests/server/control/control_fixture.h"

namespace gpupool::server {
namespace {

class ActionRunnerTest : public ControlTest {
 protected:
  void SetUp() override {
    ControlTest::SetUp();
    AddDataset("digits");
    Hello("cpu:0");
  }

  // Makes the control thread take all events of `events` in one turn. Returns
  // when everything that follows has been done.
  void InOneTurn(const std::function<void()>& events) {
    absl::Notification held;
    absl::Notification go_on;
    CancelJob(control(), kNoJob, [&](const auto&) {
      held.Notify();
      go_on.WaitForNotification();
    });
    held.WaitForNotification();
    events();
    go_on.Notify();
    for (int turn = 0; turn < 2; ++turn) {
      Answer<v1::Job> answer;
      CancelJob(control(), kNoJob, answer.callback());
      EXPECT_TRUE(absl::IsNotFound(answer.Wait().status()));
    }
  }
  void LoseWorker() {
    loop->OnWorkerLost("cpu:0", absl::UnavailableError("signal 9"), {});
  }
  // Returns the next StartJob, and drops what is posted before it.
  worker::v1::StartJob NextStart() {
    FakeWorkers::Pending post;
    do {
      if (!workers->NextPost(post)) {
        ADD_FAILURE() << "no job is started";
        return {};
      }
    } while (!post.message.has_start_job());
    return post.message.start_job();
  }

 private:
  static constexpr uint64_t kNoJob = 999;
};

TEST_F(ActionRunnerTest, AttemptOfALostWorkerIsNotStartedOnTheNextOne) {
  Answer<v1::Job> answer;
  InOneTurn([&] {
    SubmitJob(control(), Request("r1"), answer.callback());
    LoseWorker();
  });
  EXPECT_EQ(answer.Wait()->state(), v1::BACKING_OFF);
  EXPECT_EQ(workers->posts(), 0u);
  Hello("cpu:0");
  FakeWorkers::Pending post;
  ASSERT_TRUE(workers->NextPost(post));
  EXPECT_EQ(post.message.start_job().attempt(), 2u);
}

TEST_F(ActionRunnerTest, VersionOfALostWorkerIsNotLoadedOnTheNextOne) {
  const v1::Job job = FinishedJob("r1", /*publish=*/false);
  v1::PromoteCheckpointRequest request;
  request.set_job_id(job.id());
  Answer<v1::ModelVersion> answer;
  InOneTurn([&] {
    PromoteCheckpoint(control(), request, answer.callback());
    LoseWorker();
  });
  EXPECT_EQ(answer.Wait()->state(), v1::LOADING);
  EXPECT_EQ(workers->sends(), 0u);
}

TEST_F(ActionRunnerTest, AStartCarriesTheValidationSet) {
  AddDataset("val");
  v1::SubmitJobRequest request = Request("r1");
  request.mutable_spec()->mutable_data()->set_validation("val");
  ASSERT_TRUE(Submit(request).ok());
  const worker::v1::StartJob start = NextStart();
  EXPECT_EQ(start.dataset().name(), "digits");
  EXPECT_EQ(start.validation().name(), "val");
}

TEST_F(ActionRunnerTest, AStartSaysHowToMakeSyntheticRows) {
  v1::SubmitJobRequest request = Request("r1");
  v1::DataSpec& data = *request.mutable_spec()->mutable_data();
  data.clear_dataset();
  data.mutable_synthetic()->set_kind(v1::SyntheticData::SHAPES);
  data.mutable_synthetic()->set_seed(9);
  ASSERT_TRUE(Submit(request).ok());
  const worker::v1::StartJob start = NextStart();
  EXPECT_EQ(start.dataset().rows(), 1000u);
  EXPECT_EQ(start.dataset().synthetic().seed(), 9u);
  EXPECT_EQ(start.dataset().files_size(), 0);
}

TEST_F(ActionRunnerTest, AStartLeavesOutDescriptions) {
  const auto plain = workers->meta;
  workers->meta = [](const worker::v1::ToWorker&)
      -> absl::StatusOr<worker::v1::FromWorker> {
    worker::v1::FromWorker reply;
    reply.mutable_dataset()->set_rows(10);
    reply.mutable_dataset()->add_feature_shape(4);
    reply.mutable_dataset()->mutable_description()->set_dropped_rows(5);
    return reply;
  };
  AddDataset("large");
  AddDataset("val");
  ASSERT_TRUE(store->GetDataset("large")->has_description());
  workers->meta = plain;
  v1::SubmitJobRequest request = Request("r1");
  request.mutable_spec()->mutable_data()->set_dataset("large");
  request.mutable_spec()->mutable_data()->set_validation("val");
  ASSERT_TRUE(Submit(request).ok());
  const worker::v1::StartJob start = NextStart();
  EXPECT_EQ(start.dataset().rows(), 10u);
  EXPECT_FALSE(start.dataset().has_description());
  EXPECT_EQ(start.validation().name(), "val");
  EXPECT_FALSE(start.validation().has_description());
}

TEST_F(ActionRunnerTest, VersionOfALostWorkerIsNotServed) {
  FinishedJob("r1", /*publish=*/true);
  // The control thread sends the load itself, so it must not be held yet.
  ASSERT_TRUE(Eventually([&] { return workers->sends() == 1; }));
  InOneTurn([&] {
    AnswerLoad("cpu:0");
    LoseWorker();
  });
  EXPECT_TRUE(sink->served().empty());
  Hello("cpu:0");
  const uint64_t id = AnswerLoad("cpu:0");
  ASSERT_TRUE(VersionBecomes("digits", 1, v1::READY));
  EXPECT_EQ(sink->served()[id], "cpu:0");
}

// Reports the input "ids" of the type, as the worker that loads does.
class ReportedTypesTest : public ActionRunnerTest {
 protected:
  void AnswerLoadOf(v1::DataType type) {
    FakeWorkers::Pending send;
    ASSERT_TRUE(workers->NextSend(send));
    ASSERT_TRUE(send.message.has_load_version());
    worker::v1::FromWorker reply;
    worker::v1::VersionReply& version = *reply.mutable_version();
    version.set_version_id(send.message.load_version().version_id());
    version.add_inputs()->set_name("ids");
    version.mutable_inputs(0)->set_data_type(type);
    version.add_outputs()->set_name("rows");
    version.mutable_outputs(0)->set_data_type(v1::FLOAT32);
    send.callback(reply);
    ASSERT_TRUE(VersionBecomes("digits", 1, v1::READY));
  }
  // Returns the input's type after the version was loaded with the first type
  // and, on a new worker, with the second one.
  v1::DataType TypeAfter(v1::DataType first, v1::DataType second) {
    FinishedJob("r1", /*publish=*/true);
    AnswerLoadOf(first);
    EXPECT_EQ(StoredType(), first);
    LoseWorker();
    EXPECT_TRUE(VersionBecomes("digits", 1, v1::LOADING));
    Hello("cpu:0");
    AnswerLoadOf(second);
    return StoredType();
  }
  v1::DataType StoredType() {
    return store->GetVersion("digits", 1)->plan().inputs(0).data_type();
  }
};

TEST_F(ReportedTypesTest, AVersionKeepsTheWiderTypeItWasStoredWith) {
  EXPECT_EQ(TypeAfter(v1::INT32, v1::UINT16), v1::INT32);
}

TEST_F(ReportedTypesTest, AVersionTakesAnyOtherReportedType) {
  EXPECT_EQ(TypeAfter(v1::INT64, v1::UINT16), v1::UINT16);
}

}  // namespace
}  // namespace gpupool::server
