#include "server/control/models/model_profiles.h"

#include <gmock/gmock.h>

#include "server/store/store.h"
#include "tests/server/control/control_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

class ModelProfilesTest : public ControlTest {
 protected:
  void SetUp() override {
    ControlTest::SetUp();
    AddDataset("digits");
    Hello("cpu:0");
  }
  // Makes version 1 of "digits", which the worker loads.
  void ServeAVersion() {
    FinishedJob("r1", true);
    AnswerLoad("cpu:0");
    ASSERT_TRUE(VersionBecomes("digits", 1, v1::READY));
  }
  Answer<ModelProfile> Profile(uint64_t version) {
    v1::ProfileModelRequest request;
    request.set_model("digits");
    request.set_version(version);
    request.set_requests(7);
    request.set_rows(3);
    Answer<ModelProfile> answer;
    ProfileModel(control(), request, answer.callback());
    return answer;
  }
};

TEST_F(ModelProfilesTest, TheWorkerOfTheNewestServedVersionIsAsked) {
  ServeAVersion();
  auto answer = Profile(0);
  FakeWorkers::Pending send;
  ASSERT_TRUE(workers->NextSend(send));
  EXPECT_EQ(send.device, "cpu:0");
  const worker::v1::ProfileModel& sent = send.message.profile_model();
  EXPECT_EQ(sent.version_id(), store->GetVersion("digits", 1)->id());
  EXPECT_EQ(sent.requests(), 7u);
  EXPECT_EQ(sent.rows(), 3u);
  worker::v1::FromWorker reply;
  reply.mutable_profile_job()->set_sha256("abc");
  reply.mutable_profile_job()->set_steps(7);
  send.callback(reply);
  const auto profile = answer.Wait();
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(profile->sha256, "abc");
  EXPECT_EQ(profile->requests, 7u);
  EXPECT_EQ(profile->version, 1u);
}

TEST_F(ModelProfilesTest, ErrorsOfTheWorkerSayWhatToDo) {
  ServeAVersion();
  auto gone = Profile(1);
  FakeWorkers::Pending send;
  ASSERT_TRUE(workers->NextSend(send));
  send.callback(absl::NotFoundError("version 1 is not loaded here"));
  const absl::Status status = gone.Wait().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("try again"));
  auto slow = Profile(1);
  ASSERT_TRUE(workers->NextSend(send));
  send.callback(absl::DeadlineExceededError("no answer"));
  EXPECT_THAT(std::string(slow.Wait().status().message()),
              HasSubstr("fewer requests"));
  auto refused = Profile(1);
  ASSERT_TRUE(workers->NextSend(send));
  send.callback(absl::InvalidArgumentError("a batch of 3 rows"));
  EXPECT_EQ(refused.Wait().status().message(), "a batch of 3 rows");
}

TEST_F(ModelProfilesTest, OnlyServedVersionsHaveProfiles) {
  EXPECT_TRUE(absl::IsNotFound(Profile(0).Wait().status()));
  FinishedJob("r1", true);
  ASSERT_TRUE(VersionBecomes("digits", 1, v1::LOADING));
  for (const uint64_t version : {0, 1}) {
    const absl::Status status = Profile(version).Wait().status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("gpupool models load digits"));
  }
  EXPECT_TRUE(absl::IsNotFound(Profile(4).Wait().status()));
}

}  // namespace
}  // namespace gpupool::server
