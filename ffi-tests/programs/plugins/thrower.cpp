// A library in C++ that loads the C++ runtime, and throws exceptions.
#include <map>
#include <stdexcept>
#include <string>

static thread_local std::map<int, std::string> seen;

static long look(int number)
{
    auto found = seen.find(number % 7);
    if (found == seen.end())
        throw std::out_of_range(std::to_string(number));
    return static_cast<long>(found->second.size());
}

extern "C" long counter_add(int number)
{
    try {
        return look(number);
    } catch (const std::out_of_range &error) {
        seen[number % 7] = error.what();
        return number;
    }
}

extern "C" void *counter_place(void) { return &seen; }
