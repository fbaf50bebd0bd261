#include "tests/client/cli/command_test_base.h"

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;

class ModelsRollbackTest : public CommandTest {
 protected:
  ModelsRollbackTest() {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.loads_at_once = true;
  }

  // Adds a version of "sum". Call with falling numbers, as servers list them.
  void AddVersion(uint64_t number, v1::VersionState state) {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.models["sum"].set_name("sum");
    v1::ModelVersion& version = *server_.state.models["sum"].add_versions();
    version.set_model("sum");
    version.set_version(number);
    version.set_state(state);
  }
  uint64_t Loaded() {
    absl::MutexLock lock(&server_.state.mutex);
    return server_.state.loaded.version();
  }
  v1::UnloadVersionRequest Unloaded() {
    absl::MutexLock lock(&server_.state.mutex);
    return server_.state.unloaded;
  }
  int Calls(const std::string& rpc) {
    absl::MutexLock lock(&server_.state.mutex);
    return server_.state.calls[rpc];
  }
};

TEST_F(ModelsRollbackTest, TheVersionBeforeTheServedOneIsServedAgain) {
  AddVersion(4, v1::UNLOADED);
  AddVersion(3, v1::READY);
  AddVersion(2, v1::LOAD_FAILED);
  AddVersion(1, v1::UNLOADED);
  EXPECT_EQ(Run({"models", "rollback", "sum"}), 0) << err();
  EXPECT_EQ(Loaded(), 1u) << "version 2 cannot be loaded";
  EXPECT_EQ(Unloaded().version(), 3u);
  EXPECT_FALSE(Unloaded().wait());
  EXPECT_EQ(Calls("UnloadVersion"), 1);
  EXPECT_THAT(out(), HasSubstr("sum\t1\tready\t"));
  EXPECT_THAT(err(), HasSubstr("sum version 3 is being unloaded and stays"));
}

TEST_F(ModelsRollbackTest, ANewerVersionThatIsStillLoadedIsStopped) {
  AddVersion(3, v1::LOADING);
  AddVersion(2, v1::READY);
  AddVersion(1, v1::UNLOADED);
  EXPECT_EQ(Run({"models", "rollback", "sum/1", "--wait"}), 0) << err();
  EXPECT_EQ(Loaded(), 1u);
  EXPECT_EQ(Calls("UnloadVersion"), 2);
  EXPECT_TRUE(Unloaded().wait());
}

TEST_F(ModelsRollbackTest, TheNewestServedVersionIsUnloadedLast) {
  AddVersion(4, v1::READY);
  AddVersion(3, v1::READY);
  AddVersion(2, v1::LOADING);
  AddVersion(1, v1::UNLOADED);
  EXPECT_EQ(Run({"models", "rollback", "sum/1"}), 0) << err();
  EXPECT_EQ(Calls("UnloadVersion"), 3);
  EXPECT_EQ(Unloaded().version(), 4u) << "requests move only once";
}

TEST_F(ModelsRollbackTest, NothingIsUnloadedUnlessTheOlderVersionAnswers) {
  AddVersion(2, v1::READY);
  AddVersion(1, v1::LOADING);
  {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.loads_at_once = false;
  }
  EXPECT_EQ(Run({"models", "rollback", "sum", "--timeout", "1ms"}), 124);
  EXPECT_THAT(err(), HasSubstr("sum version 1 is still loading after"));
  EXPECT_THAT(err(), HasSubstr("version 2 still answers"));
  EXPECT_EQ(Calls("UnloadVersion"), 0);
}

TEST_F(ModelsRollbackTest, ThereMustBeAVersionToGoBackTo) {
  AddVersion(2, v1::READY);
  EXPECT_EQ(Run({"models", "rollback", "sum"}), 6);
  EXPECT_THAT(err(), HasSubstr("'sum' has no version before 2"));
  EXPECT_EQ(Run({"models", "rollback", "sum/1"}), 3);
  EXPECT_THAT(err(), HasSubstr("has no version 1"));
  EXPECT_EQ(Run({"models", "rollback", "none"}), 3);
  EXPECT_EQ(Calls("LoadVersion"), 0);
}

TEST_F(ModelsRollbackTest, ANewerVersionIsNoRollback) {
  AddVersion(3, v1::UNLOADED);
  AddVersion(2, v1::READY);
  EXPECT_EQ(Run({"models", "rollback", "sum/3"}), 2);
  EXPECT_THAT(err(), HasSubstr("`gpupool models load sum/3`"));
}

TEST_F(ModelsRollbackTest, SomeVersionMustBeServed) {
  AddVersion(2, v1::UNLOADED);
  AddVersion(1, v1::UNLOADED);
  EXPECT_EQ(Run({"models", "rollback", "sum"}), 6);
  EXPECT_THAT(err(), HasSubstr("no version of 'sum' is served"));
}

}  // namespace
}  // namespace gpupool::client
