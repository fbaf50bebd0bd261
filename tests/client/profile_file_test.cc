#include "client/profile_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "tests/client/testing/fake_server.h"

namespace gpupool::client {
namespace {

class ProfileFileTest : public ::testing::Test {
 protected:
  ProfileFileTest() {
    client_ = *Client::Create({.address = server_.address()});
    request_.set_id(7);
    request_.set_steps(3);
  }

  FakeServer server_;
  std::unique_ptr<Client> client_;
  v1::ProfileJobRequest request_;
};

TEST_F(ProfileFileTest, WritesTheChunksAsOneFile) {
  const std::string path =
      ::testing::TempDir() + "/profile_file_" + std::to_string(::getpid());
  const auto profile = ProfileJob(*client_, request_, path);
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(profile->bytes, FakeTrace().size());
  EXPECT_EQ(profile->steps, 3u);
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), FakeTrace());
  EXPECT_NE(::access((path + ".part").c_str(), F_OK), 0);
  ::unlink(path.c_str());
}

TEST_F(ProfileFileTest, AModelsProfileNamesItsVersion) {
  const std::string path =
      ::testing::TempDir() + "/model_profile_" + std::to_string(::getpid());
  v1::ProfileModelRequest request;
  request.set_model("digits");
  request.set_requests(2);
  const auto profile = ProfileModel(*client_, request, path);
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(profile->bytes, FakeTrace().size());
  EXPECT_EQ(profile->steps, 2u);
  EXPECT_EQ(profile->version, 3u);
  ::unlink(path.c_str());
}

TEST_F(ProfileFileTest, APlaceThatCannotBeWrittenIsAnErrorAndAsksNobody) {
  const auto profile = ProfileJob(*client_, request_, "/nowhere/trace");
  EXPECT_TRUE(absl::IsNotFound(profile.status())) << profile.status();
}

}  // namespace
}  // namespace gpupool::client
