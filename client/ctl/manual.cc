// The manual page and the completions, from the definition of the command line.

#include <string>
#include <vector>

#include "client/ctl/command_line.h"
#include "tvarant_version.h"

namespace tvarant::client {
namespace {

// A leaf of the command line with the words that lead to it.
struct Leaf {
  std::string words;  // "cache list"
  const CLI::App* app;
};

std::vector<const CLI::App*> Children(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<Leaf> Leaves(const CLI::App& app) {
  std::vector<Leaf> leaves;
  for (const CLI::App* child : Children(app)) {
    const auto below = Children(*child);
    if (below.empty()) leaves.push_back({child->get_name(), child});
    for (const CLI::App* leaf : below) {
      leaves.push_back({child->get_name() + " " + leaf->get_name(), leaf});
    }
  }
  return leaves;
}

// "--interval SECONDS", "session N".
std::string Usage(const CLI::Option& option) {
  std::string name = option.get_name(false, true);
  for (size_t i = name.find(','); i != std::string::npos;
       i = name.find(',', i + 2)) {
    name.insert(i + 1, " ");
  }
  const bool takes_value =
      option.get_items_expected_max() > 0 && option.get_type_size_max() > 0;
  return takes_value && !option.get_positional()
             ? name + " " + option.get_type_name()
             : name;
}

std::string Roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '-') {
      out += "\\-";
    } else if (c == '\\') {
      out += "\\e";
    } else {
      out += c;
    }
  }
  // A line that starts with these would be a request.
  if (!out.empty() && (out[0] == '.' || out[0] == '\'')) out.insert(0, "\\&");
  return out;
}

void AddOptions(const CLI::App& app, std::string* out) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_name(false, true) == "-h,--help") continue;
    *out += ".TP\n.B " + Roff(Usage(*option)) + "\n" +
            Roff(option->get_description()) + ".\n";
  }
}

std::vector<std::string> LongNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  return names;
}

std::string Join(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

std::string BashCompletion(const CLI::App& app) {
  std::vector<std::string> commands;
  std::string cases;
  for (const CLI::App* child : Children(app)) {
    commands.push_back(child->get_name());
    std::vector<std::string> words = LongNames(*child);
    for (const CLI::App* leaf : Children(*child)) {
      words.push_back(leaf->get_name());
    }
    if (child->get_name() == "completion") {
      words.insert(words.end(), {"bash", "zsh", "fish"});
    }
    cases +=
        "      " + child->get_name() + ") words+=\" " + Join(words) + "\" ;;\n";
  }
  return R"(# Completion of tvarantctl for bash: source <(tvarantctl completion bash)
_tvarantctl() {
  local current="${COMP_WORDS[COMP_CWORD]}" command="" word words
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case " )" +
         Join(commands) +
         R"( " in
      *" $word "*) command="$word"; break ;;
    esac
  done
  words=")" +
         Join(LongNames(app)) +
         R"("
  if [[ -z $command ]]; then
    words+=" )" +
         Join(commands) +
         R"("
  else
    case "$command" in
)" + cases +
         R"(    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _tvarantctl tvarantctl
)";
}

// A word of fish between single quotes.
std::string FishQuoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string FishCompletion(const CLI::App& app) {
  std::string out =
      "# Completion of tvarantctl for fish: tvarantctl completion fish | "
      "source\n";
  const auto options = [&out](const CLI::App& of, const std::string& where) {
    for (const CLI::Option* option : of.get_options()) {
      for (const std::string& name : option->get_lnames()) {
        out += "complete -c tvarantctl" + where + " -l " + name + " -d " +
               FishQuoted(option->get_description()) + "\n";
      }
    }
  };
  options(app, "");
  for (const CLI::App* child : Children(app)) {
    out += "complete -c tvarantctl -f -n __fish_use_subcommand -a " +
           child->get_name() + " -d " + FishQuoted(child->get_description()) +
           "\n";
    const std::string where =
        " -n '__fish_seen_subcommand_from " + child->get_name() + "'";
    options(*child, where);
    for (const CLI::App* leaf : Children(*child)) {
      out += "complete -c tvarantctl -f" + where + " -a " + leaf->get_name() +
             " -d " + FishQuoted(leaf->get_description()) + "\n";
    }
  }
  return out;
}

}  // namespace

std::string ManualPage(const CLI::App& app) {
  std::string out = std::string(".TH TVARANTCTL 1 \"\" \"Tvarant ") + kVersion +
                    "\" \"User Commands\"\n"
                    ".SH NAME\ntvarantctl \\- show and steer a Tvarant device "
                    "daemon\n.SH SYNOPSIS\n.B tvarantctl\n.RI [ options ]\n"
                    ".I command\n.RI [ arguments ]\n.SH DESCRIPTION\n" +
                    Roff(app.get_description()) +
                    "\nIt asks the daemon over its socket and never touches "
                    "the device itself.\n.SH OPTIONS\n";
  AddOptions(app, &out);
  out += ".SH COMMANDS\n";
  for (const Leaf& leaf : Leaves(app)) {
    out += ".SS " + Roff(leaf.words) + "\n" +
           Roff(leaf.app->get_description()) + ".\n";
    AddOptions(*leaf.app, &out);
  }
  out +=
      ".SH RIGHTS\n"
      "Everybody who may connect to the socket may look. To end sessions, to "
      "drain,\nto clear the cache and to trace the sessions of others one must "
      "be root, the\ndaemon's user or a member of its\n.B admin_group\n"
      "(tvarantd.conf).\n"
      ".SH EXIT STATUS\n"
      ".TP\n.B 0\nDone.\n"
      ".TP\n.B 1\nDone in part: a session that is not there, sessions that are "
      "left after\n.BR \"drain \\-\\-wait\" ,\na fault that\n.B "
      "doctor\nfound.\n"
      ".TP\n.B 64\nThe command line is wrong.\n"
      ".TP\n.B 69\nThe daemon can't be reached, or does not know the command.\n"
      ".TP\n.B 73\nThe output can't be written.\n"
      ".TP\n.B 77\nNot allowed.\n"
      ".SH ENVIRONMENT\n.TP\n.B TVARANT_ENDPOINT\nAs\n.BR \\-\\-endpoint .\n"
      ".SH EXAMPLES\n.EX\n"
      "tvarantctl clients \\-\\-json | jq \\(aq.sessions[].memory_bytes\\(aq\n"
      "tvarantctl drain \\-\\-wait 600 && systemctl stop tvarantd\n"
      "tvarantctl trace \\-\\-seconds 2 \\-o step.json\n.EE\n";
  return out;
}

std::string Completion(const CLI::App& app, const std::string& shell) {
  if (shell == "fish") return FishCompletion(app);
  const std::string bash = BashCompletion(app);
  return shell == "zsh" ? "autoload -U +X bashcompinit && bashcompinit\n" + bash
                        : bash;
}

}  // namespace tvarant::client
