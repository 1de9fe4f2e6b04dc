"""Tools that help to port a model between PyTorch and MindSpore.

| part         | what it does                                                             |
|--------------|--------------------------------------------------------------------------|
| `chain`      | records steps of a torch training, module by module                      |
| `mindspore`  | records and checks steps in MindSpore                                    |
| `port_check` | runs one step of a port on the recorded values and lists every mistake   |
| `comparison` | compares two recorded runs                                               |

`mindspore` stands on `port_check`, and `port_check` on `comparison` and `chain`. The rest of the
package imports the public names alone.
"""
