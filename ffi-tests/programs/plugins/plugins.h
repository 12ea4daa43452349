// Interface between plugins.c and the libraries that it opens.
enum { COUNTS = 190 };

long helper_step(long by);
long counter_add(int number);
void *counter_place(void);
