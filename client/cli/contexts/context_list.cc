#include "client/cli/contexts/context_list.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/local_socket.h"
#include "client/text/quote.h"
#include "client/text/suggest.h"

namespace gpupool::client {
namespace {

constexpr size_t kMostNamesShown = 20;

struct ContextField {
  const char* name;
  std::string& value;
  bool is_path = true;
};

// Returns the texts of a context, in the order of the file.
std::vector<ContextField> TextFields(ServerContext& context) {
  return {{"address", context.address, false},
          {"ca", context.tls.ca},
          {"client_cert", context.tls.certificate},
          {"client_key", context.tls.key},
          {"token_file", context.token_file}};
}

absl::Status CheckValue(const ContextField& field) {
  const std::string& value = field.value;
  if (value.size() > kLongestContextValue) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", field.name, "' has ", value.size(), " bytes, over ",
                     kLongestContextValue));
  }
  if (std::any_of(value.begin(), value.end(), [](char c) {
        return absl::ascii_iscntrl(static_cast<unsigned char>(c));
      })) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", field.name, "' has a control character: ", Quoted(value)));
  }
  const absl::string_view path = field.is_path ? absl::string_view(value)
                                 : IsSocketAddress(value)
                                     ? absl::string_view(value).substr(5)
                                     : absl::string_view();
  if (!path.empty() && path[0] != '/') {
    return absl::InvalidArgumentError(
        absl::StrCat("'", field.name, "' is ", Quoted(path),
                     ", which depends on the folder that a command is called "
                     "in; write a path that begins with /"));
  }
  return absl::OkStatus();
}

// Reads the document and keeps the name of its source for errors.
class ContextReader {
 public:
  explicit ContextReader(absl::string_view source) : source_(source) {}

  absl::Status Error(const YAML::Mark& mark, absl::string_view text) const {
    if (mark.is_null()) {
      return absl::InvalidArgumentError(absl::StrCat(source_, ": ", text));
    }
    return absl::InvalidArgumentError(absl::StrCat(
        source_, ":", mark.line + 1, ":", mark.column + 1, ": ", text));
  }

  absl::Status Read(const YAML::Node& root, ContextList& list) const {
    static const std::vector<std::string> kKeys = {"in_use", "contexts"};
    const absl::Status keys = CheckKeys(root, "the file", kKeys);
    if (!keys.ok()) return keys;
    for (const auto& entry : root) {
      const absl::Status read =
          entry.first.Scalar() == "in_use"
              ? ReadText(entry.first, entry.second, list.in_use)
              : ReadContexts(entry.first, entry.second, list);
      if (!read.ok()) return read;
    }
    return absl::OkStatus();
  }

 private:
  // Returns an error unless `node` is a mapping whose keys are different words,
  // which are in `known` if that is not empty.
  absl::Status CheckKeys(const YAML::Node& node, absl::string_view what,
                         const std::vector<std::string>& known) const {
    if (!node.IsMap()) {
      return Error(node.Mark(), absl::StrCat(what, " needs a mapping"));
    }
    std::set<std::string> seen;
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) {
        return Error(entry.first.Mark(), "a key must be a word");
      }
      const std::string& key = entry.first.Scalar();
      if (!seen.insert(key).second) {
        return Error(entry.first.Mark(),
                     absl::StrCat(Quoted(key), " is given twice"));
      }
      if (known.empty() ||
          std::find(known.begin(), known.end(), key) != known.end()) {
        continue;
      }
      return Error(entry.first.Mark(),
                   key == "token"
                       ? "a context has no token; write it to a file that only "
                         "you can read, and name that with 'token_file'"
                       : absl::StrCat("unknown key ", Quoted(key), " of ", what,
                                      DidYouMean(key, known), " (known: ",
                                      absl::StrJoin(known, ", "), ")"));
    }
    return absl::OkStatus();
  }

  absl::Status ReadContexts(const YAML::Node& key, const YAML::Node& node,
                            ContextList& list) const {
    if (node.IsNull()) return absl::OkStatus();
    const absl::Status keys = CheckKeys(node, "'contexts'", {});
    if (!keys.ok()) return keys;
    if (node.size() > kMostContexts) {
      return Error(key.Mark(), absl::StrCat("there are ", node.size(),
                                            " contexts, over ", kMostContexts));
    }
    for (const auto& entry : node) {
      const std::string& name = entry.first.Scalar();
      const absl::Status valid = CheckContextName(name);
      if (!valid.ok()) return Error(entry.first.Mark(), valid.message());
      const absl::Status read =
          ReadContext(entry.first, entry.second, list.contexts[name]);
      if (!read.ok()) return read;
    }
    return absl::OkStatus();
  }

  absl::Status ReadContext(const YAML::Node& name, const YAML::Node& node,
                           ServerContext& context) const {
    const std::vector<ContextField> fields = TextFields(context);
    std::vector<std::string> known;
    for (const ContextField& field : fields) known.push_back(field.name);
    known.push_back("insecure");
    const std::string what = absl::StrCat("context ", Quoted(name.Scalar()));
    const absl::Status keys = CheckKeys(node, what, known);
    if (!keys.ok()) return keys;
    for (const auto& entry : node) {
      std::string text;
      absl::Status read = ReadText(entry.first, entry.second, text);
      if (!read.ok()) return read;
      const std::string& key = entry.first.Scalar();
      if (key == "insecure") {
        if (text != "true" && text != "false") {
          return Error(entry.second.Mark(),
                       absl::StrCat("'insecure' needs true or false, not ",
                                    Quoted(text)));
        }
        context.insecure = text == "true";
        continue;
      }
      const auto field = std::find_if(
          fields.begin(), fields.end(),
          [&](const ContextField& one) { return one.name == key; });
      field->value = text;
      read = CheckValue(*field);
      if (!read.ok()) return Error(entry.second.Mark(), read.message());
    }
    const absl::Status valid = CheckContext(context);
    if (valid.ok()) return valid;
    return Error(name.Mark(), absl::StrCat(what, ": ", valid.message()));
  }

  absl::Status ReadText(const YAML::Node& key, const YAML::Node& node,
                        std::string& text) const {
    if (!node.IsScalar()) {
      return Error(key.Mark(),
                   absl::StrCat(Quoted(key.Scalar()), " needs one text"));
    }
    text = node.Scalar();
    return absl::OkStatus();
  }

  const std::string source_;
};

// Returns " (known: a, b)" with at most kMostNamesShown names.
std::string KnownContexts(const std::vector<std::string>& names) {
  if (names.empty()) {
    return "; it has none: make one with `gpupool context add`";
  }
  const size_t shown = std::min(names.size(), kMostNamesShown);
  return absl::StrCat(
      " (known: ",
      absl::StrJoin(names.begin(),
                    names.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
      shown < names.size()
          ? absl::StrCat(" and ", names.size() - shown, " more")
          : "",
      ")");
}

}  // namespace

bool ServerContext::operator==(const ServerContext& other) const {
  return address == other.address && tls.ca == other.tls.ca &&
         tls.certificate == other.tls.certificate && tls.key == other.tls.key &&
         token_file == other.token_file && insecure == other.insecure;
}

absl::Status CheckContextName(absl::string_view name) {
  const bool valid =
      !name.empty() && name.size() <= kLongestContextName &&
      absl::ascii_isalnum(static_cast<unsigned char>(name[0])) &&
      std::all_of(name.begin(), name.end(), [](char c) {
        return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' ||
               c == '-' || c == '_';
      });
  if (valid) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      Quoted(name), " cannot name a context; use 1 to ", kLongestContextName,
      " letters, digits, dots, dashes and underscores, of which the first is a "
      "letter or digit"));
}

absl::Status CheckContext(const ServerContext& context) {
  if (context.address.empty()) {
    return absl::InvalidArgumentError(
        "'address' is missing; give the server's as host:port or unix:PATH");
  }
  ServerContext copy = context;
  for (const ContextField& field : TextFields(copy)) {
    const absl::Status valid = CheckValue(field);
    if (!valid.ok()) return valid;
  }
  if (context.tls.certificate.empty() != context.tls.key.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a client certificate and its key belong together; '",
                     context.tls.key.empty() ? "client_key" : "client_cert",
                     "' is missing"));
  }
  if (context.tls.ca.empty() && !context.tls.certificate.empty()) {
    return absl::InvalidArgumentError(
        "a client certificate needs TLS; 'ca' is missing");
  }
  return absl::OkStatus();
}

absl::StatusOr<ContextList> ParseContexts(const std::string& text,
                                          absl::string_view source) {
  const ContextReader reader(source);
  ContextList list;
  // yaml-cpp reports errors by exceptions. They are caught here.
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.empty() || documents[0].IsNull()) return list;
    if (documents.size() > 1) {
      return reader.Error(documents[1].Mark(),
                          "a second document begins here; one is expected");
    }
    const absl::Status read = reader.Read(documents[0], list);
    if (!read.ok()) return read;
    return list;
  } catch (const YAML::Exception& error) {
    return reader.Error(error.mark, error.msg);
  }
}

std::string ContextsText(const ContextList& list) {
  YAML::Emitter out;
  out << YAML::BeginMap;
  if (!list.in_use.empty()) {
    out << YAML::Key << "in_use" << YAML::Value << YAML::DoubleQuoted
        << list.in_use;
  }
  out << YAML::Key << "contexts" << YAML::Value << YAML::BeginMap;
  for (const auto& [name, context] : list.contexts) {
    out << YAML::Key << YAML::DoubleQuoted << name << YAML::Value
        << YAML::BeginMap;
    ServerContext copy = context;
    for (const ContextField& field : TextFields(copy)) {
      if (field.value.empty()) continue;
      out << YAML::Key << field.name << YAML::Value << YAML::DoubleQuoted
          << field.value;
    }
    if (context.insecure) {
      out << YAML::Key << "insecure" << YAML::Value << "true";
    }
    out << YAML::EndMap;
  }
  out << YAML::EndMap << YAML::EndMap;
  return absl::StrCat("# Servers of `gpupool context`.\n", out.c_str(), "\n");
}

absl::StatusOr<ServerContext> FindContext(const ContextList& list,
                                          absl::string_view name,
                                          absl::string_view source) {
  const auto found = list.contexts.find(std::string(name));
  if (found != list.contexts.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, context] : list.contexts) names.push_back(known);
  return absl::NotFoundError(absl::StrCat(source, " has no context ",
                                          Quoted(name), DidYouMean(name, names),
                                          KnownContexts(names)));
}

}  // namespace gpupool::client
