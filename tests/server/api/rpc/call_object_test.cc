#include "server/api/rpc/call_object.h"

#include <gtest/gtest.h>

#include "gpupool/v1/auth.pb.h"
#include "gpupool/v1/dataset.pb.h"
#include "gpupool/v1/job.pb.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::server {
namespace {

TEST(CallObjectTest, TheAnswerAddsTheIdOfWhatWasMade) {
  v1::SubmitJobRequest request;
  request.set_request_id("r-1");
  request.mutable_spec()->set_name("digits");
  CallObject object;
  object.Take(request);
  EXPECT_EQ(object.Text(), "name=digits");
  EXPECT_EQ(object.request_id(), "r-1");
  v1::Job job;
  job.set_id(7);
  job.mutable_spec()->set_name("another");
  object.Take(job);
  EXPECT_EQ(object.Text(), "id=7 name=digits");
}

TEST(CallObjectTest, HeadersOfUploadsCountAndChunksDoNot) {
  v1::UploadDatasetRequest request;
  request.mutable_chunk()->set_data("bytes");
  CallObject object;
  object.Take(request);
  EXPECT_EQ(object.Text(), "");
  request.mutable_header()->set_name("digits");
  object.Take(request);
  EXPECT_EQ(object.Text(), "name=digits");
}

TEST(CallObjectTest, ASecretIsNeverTaken) {
  v1::CreateTokenResponse answer;
  answer.set_secret("gpk_secret");
  answer.mutable_token()->set_id(3);
  answer.mutable_token()->set_tenant("lab");
  CallObject object;
  object.Take(answer);
  EXPECT_EQ(object.Text(), "id=3 tenant=lab");
}

TEST(CallObjectTest, ANameCannotLookLikeAnotherField) {
  v1::LoadVersionRequest request;
  request.set_model("digits version=9 \"\n");
  request.set_version(2);
  CallObject object;
  object.Take(request);
  EXPECT_EQ(object.Text(), "model=\"digits version=9 \\\"\\n\" version=2");
}

TEST(CallObjectTest, LongNamesAreCut) {
  v1::LoadVersionRequest request;
  request.set_model(std::string(1000, 'm'));
  request.set_version(2);
  CallObject object;
  object.Take(request);
  EXPECT_EQ(object.Text(), "model=" + std::string(128, 'm') + " version=2");
}

}  // namespace
}  // namespace gpupool::server
