#include "server/repository/version_calls.h"

#include <gmock/gmock.h>

#include <future>

#include "tests/server/control/control_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

class VersionCallsTest : public ControlTest {
 protected:
  void SetUp() override {
    ControlTest::SetUp();
    Hello("cpu:0");
    workers->meta = [](const worker::v1::ToWorker&) {
      worker::v1::FromWorker reply;
      reply.mutable_import_model()
          ->mutable_plan()
          ->mutable_inference()
          ->set_peak(50);
      return absl::StatusOr<worker::v1::FromWorker>(reply);
    };
  }
  RepositoryImport Import() {
    RepositoryImport import{.number = 4};
    import.model.set_name("net");
    import.check = [](const v1::ModelVersion&) { return absl::OkStatus();
  };
  return import;
}
};  // namespace

TEST_F(VersionCallsTest, AnImportIsListed) {
  ControlCalls calls(&control());
  EXPECT_EQ(calls.Versions()->size(), 0u);
  const absl::Status imported = calls.Import(Import());
  ASSERT_TRUE(imported.ok()) << imported;
  ASSERT_EQ(calls.Versions()->size(), 1u);
  EXPECT_EQ(calls.Versions()->front().version(), 4u);
}

TEST_F(VersionCallsTest, LoadsAreFollowed) {
  ControlCalls calls(&control());
  ASSERT_TRUE(calls.Import(Import()).ok());
  std::promise<absl::Status> loaded;
  calls.WhenLoaded(
      "net", 4, [&](const absl::Status& status) { loaded.set_value(status); });
  AnswerLoad("cpu:0", absl::InvalidArgumentError("bad weights"));
  EXPECT_THAT(std::string(loaded.get_future().get().message()),
              HasSubstr("bad weights"));
  EXPECT_TRUE(calls.Load("net", 4, "").ok());
  AnswerLoad("cpu:0");
  EXPECT_TRUE(VersionBecomes("net", 4, v1::READY));
}

TEST_F(VersionCallsTest, ErrorsAreReturned) {
  ControlCalls calls(&control());
  EXPECT_TRUE(absl::IsNotFound(calls.Load("net", 4, "")));
  EXPECT_TRUE(absl::IsNotFound(calls.Unload("net", 4)));
}

TEST_F(VersionCallsTest, AStoppedControlAnswersAtOnce) {
  ControlCalls calls(&control());
  loop->Stop();
  EXPECT_TRUE(absl::IsUnavailable(calls.Load("net", 4, "")));
}

}  // namespace gpupool::server
}  // namespace gpupool::server
