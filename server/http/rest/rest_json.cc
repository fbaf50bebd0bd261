#include "server/http/rest/rest_json.h"

#include "nlohmann/json.hpp"

namespace gpupool::server {
namespace {

using Json = nlohmann::ordered_json;

// Dumps without throwing: names come from clients and may not be UTF-8.
std::string Text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <typename Tensors>
Json TensorsJson(const Tensors& tensors) {
  Json list = Json::array();
  for (const auto& tensor : tensors) {
    list.push_back({{"name", tensor.name()},
                    {"datatype", tensor.datatype()},
                    {"shape", std::vector<int64_t>(tensor.shape().begin(),
                                                   tensor.shape().end())}});
  }
  return list;
}

}  // namespace

std::string ToJson(const inference::ServerMetadataResponse& response) {
  return Text(
      {{"name", response.name()},
       {"version", response.version()},
       {"extensions", std::vector<std::string>(response.extensions().begin(),
                                               response.extensions().end())}});
}

std::string ToJson(const inference::ModelMetadataResponse& response) {
  return Text(
      {{"name", response.name()},
       {"versions", std::vector<std::string>(response.versions().begin(),
                                             response.versions().end())},
       {"platform", response.platform()},
       {"inputs", TensorsJson(response.inputs())},
       {"outputs", TensorsJson(response.outputs())}});
}

std::string ToJson(const inference::RepositoryIndexResponse& response) {
  Json list = Json::array();
  for (const auto& model : response.models()) {
    list.push_back({{"name", model.name()},
                    {"version", model.version()},
                    {"state", model.state()},
                    {"reason", model.reason()}});
  }
  return Text(list);
}

std::string FlagJson(const std::string& name, bool value) {
  return Text({{name, value}});
}

std::string ModelReadyJson(const std::string& model, bool ready) {
  return Text({{"name", model}, {"ready", ready}});
}

std::string ErrorJson(const std::string& text) {
  return Text({{"error", text}});
}

}  // namespace gpupool::server
