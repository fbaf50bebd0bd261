#include "server/http/rest/rest_json.h"

#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

TEST(RestJsonTest, ShapesAreNumbers) {
  inference::ModelMetadataResponse response;
  response.set_name("m");
  response.add_versions("1");
  response.set_platform("p");
  auto* input = response.add_inputs();
  input->set_name("x");
  input->set_datatype("FP32");
  input->add_shape(-1);
  input->add_shape(64);
  EXPECT_EQ(ToJson(response),
            R"({"name":"m","versions":["1"],"platform":"p",)"
            R"("inputs":[{"name":"x","datatype":"FP32","shape":[-1,64]}],)"
            R"("outputs":[]})");
}

TEST(RestJsonTest, AnEmptyListOfExtensionsIsAList) {
  inference::ServerMetadataResponse response;
  response.set_name("s");
  response.set_version("1");
  EXPECT_EQ(ToJson(response), R"({"name":"s","version":"1","extensions":[]})");
}

TEST(RestJsonTest, AnIndexIsAList) {
  inference::RepositoryIndexResponse response;
  EXPECT_EQ(ToJson(response), "[]");
  auto* model = response.add_models();
  model->set_name("m");
  model->set_state("UNAVAILABLE");
  model->set_reason("unloaded");
  EXPECT_EQ(ToJson(response),
            R"([{"name":"m","version":"","state":"UNAVAILABLE",)"
            R"("reason":"unloaded"}])");
}

TEST(RestJsonTest, FlagsAndErrors) {
  EXPECT_EQ(FlagJson("live", true), R"({"live":true})");
  EXPECT_EQ(ModelReadyJson("m", false), R"({"name":"m","ready":false})");
  EXPECT_EQ(ErrorJson("a \"b\"\n"), R"({"error":"a \"b\"\n"})");
}

TEST(RestJsonTest, BytesThatAreNotUtf8AreReplaced) {
  EXPECT_EQ(ErrorJson("\xff"), "{\"error\":\"\xEF\xBF\xBD\"}");
}

}  // namespace
}  // namespace gpupool::server
