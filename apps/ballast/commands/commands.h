// The commands of the program: one function each, in the file of its name.
#pragma once

#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace ballast::cli {

class Console;

// Runs a command whose flags were parsed, and gives the exit code.
using RunCommand = std::function<int()>;

// Adds a subcommand with its flags to `program`; the result is called when the user chose it.
// Both arguments outlive the result.
using AddCommand = RunCommand (*)(CLI::App& program, Console& console);

RunCommand add_inspect(CLI::App& program, Console& console);
RunCommand add_show(CLI::App& program, Console& console);
RunCommand add_stats(CLI::App& program, Console& console);
RunCommand add_verify(CLI::App& program, Console& console);
RunCommand add_convert(CLI::App& program, Console& console);
RunCommand add_quantize(CLI::App& program, Console& console);
RunCommand add_apply(CLI::App& program, Console& console);
RunCommand add_extract(CLI::App& program, Console& console);
RunCommand add_merge(CLI::App& program, Console& console);
RunCommand add_split(CLI::App& program, Console& console);
RunCommand add_edit(CLI::App& program, Console& console);
RunCommand add_doctor(CLI::App& program, Console& console);
RunCommand add_diff(CLI::App& program, Console& console);
RunCommand add_hash(CLI::App& program, Console& console);
RunCommand add_formats(CLI::App& program, Console& console);
RunCommand add_checkpoints(CLI::App& program, Console& console);
RunCommand add_import(CLI::App& program, Console& console);
RunCommand add_get(CLI::App& program, Console& console);
RunCommand add_cache(CLI::App& program, Console& console);
RunCommand add_chat(CLI::App& program, Console& console);
RunCommand add_serve(CLI::App& program, Console& console);
RunCommand add_lens(CLI::App& program, Console& console);
RunCommand add_generate(CLI::App& program, Console& console);
RunCommand add_tokenize(CLI::App& program, Console& console);
RunCommand add_forward(CLI::App& program, Console& console);
RunCommand add_embed(CLI::App& program, Console& console);
RunCommand add_perplexity(CLI::App& program, Console& console);
RunCommand add_trace(CLI::App& program, Console& console);
RunCommand add_benchmark(CLI::App& program, Console& console);
RunCommand add_train(CLI::App& program, Console& console);
RunCommand add_models(CLI::App& program, Console& console);
RunCommand add_ops(CLI::App& program, Console& console);
RunCommand add_backends(CLI::App& program, Console& console);
RunCommand add_help(CLI::App& program, Console& console);
RunCommand add_completions(CLI::App& program, Console& console);
RunCommand add_man(CLI::App& program, Console& console);

// In the order in which help lists them.
inline constexpr AddCommand kCommands[] = {
    add_inspect, add_lens,        add_show,     add_stats,    add_verify,      add_doctor,
    add_diff,    add_hash,        add_convert,  add_quantize, add_apply,       add_extract,
    add_merge,   add_split,       add_edit,     add_import,   add_get,         add_cache,
    add_train,   add_checkpoints, add_chat,     add_serve,    add_generate,    add_tokenize,
    add_forward, add_perplexity,  add_embed,    add_trace,    add_benchmark,   add_formats,
    add_models,  add_ops,         add_backends, add_help,     add_completions, add_man,
};

// Whether the program was built with what the command needs; otherwise it has no such command.
bool is_available(AddCommand command);

// What --version prints.
std::string version_text();

}  // namespace ballast::cli
